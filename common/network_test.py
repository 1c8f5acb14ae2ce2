# Run with -c by the interpreter of a job, on every node of it at once: who reaches whom and how fast
# over plain TCP, and whether an all-reduce through the job's own torch gives the right sum.
#   argv: address and port of the node at place 0, our place, nodes, a word that names this test
#   LAUNCH_NCCL_TEST: path of launch-nccl-test, for jobs with GPUs
# Prints one line, with a mark in front. Needs nothing but the standard library; torch where it is.
import sys

sys.path[:] = [entry for entry in sys.path if entry]  # not the directory we were started in

import functools
import importlib.util
import json
import os
import socket
import shutil
import struct
import subprocess
import tempfile
import threading
import time

MARK = "@launch-network-test "
JOIN_S = 20.0  # until all nodes are there; they are asked at the same moment
REACH_S = 3.0  # of one connection
NCCL_S = 30.0  # of the all-reduce of GPUs, with the start of the driver
GROUP_S = 60.0  # of the all-reduce, with the import of torch on the slowest node
ROUND_S = 0.1  # of one measurement in one direction
ROUNDS = 32  # of pairs that measure at the same time; all pairs of 33 nodes
FIRST_BYTES = 1 << 20
MOST_BYTES = 256 << 20
PINGS = 20
FAST_MBIT = 4000  # one connection is bound by the copies of one core: beyond this, several measure
STREAMS = 4


def emit(facts):
    os.write(1, ("\n" + MARK + json.dumps(facts) + "\n").encode())


def text_of(error):
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return ("%s: %s" % (type(error).__name__, lines[0] if lines else ""))[:500]


def listen(port, backlog):
    # SO_REUSEADDR: the port may be held, without listening, for the ranks to come.
    for family in (socket.AF_INET6, socket.AF_INET):
        try:
            server = socket.socket(family, socket.SOCK_STREAM)
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            server.bind(("", port))
            server.listen(backlog)
            return server
        except OSError as error:
            last = error
    raise last


def plain(address):  # an IPv4 address as a dual-stack socket shows it
    return address[7:] if address.startswith("::ffff:") else address


def read_exactly(stream, count):
    data = bytearray()
    while len(data) < count:
        part = stream.recv(min(count - len(data), 1 << 20))
        if not part:
            raise ConnectionError("the other side closed the connection")
        data += part
    return bytes(data)


def send_message(stream, message):
    body = json.dumps(message).encode()
    stream.sendall(struct.pack("!I", len(body)) + body)


def read_message(stream):
    (size,) = struct.unpack("!I", read_exactly(stream, 4))
    if size > 1 << 20:
        raise ConnectionError("not a message of this test")
    return json.loads(read_exactly(stream, size).decode())


def connect(address, port, seconds):
    stream = socket.create_connection((address, port), timeout=seconds)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return stream


def drain(stream, count):
    buffer = bytearray(1 << 20)
    while count > 0:
        got = stream.recv_into(buffer, min(count, len(buffer)))
        if got == 0:
            raise ConnectionError("the other side closed the connection")
        count -= got


def fill(stream, count):
    block = bytes(1 << 20)
    while count > 0:
        stream.sendall(block[: min(count, len(block))])
        count -= min(count, len(block))


class Answerer(threading.Thread):
    """Serves the measurements that other nodes make with this one."""

    def __init__(self, word, backlog):
        super().__init__(daemon=True)
        self.word = word
        self.server = listen(0, backlog)
        self.port = self.server.getsockname()[1]

    def run(self):
        while True:
            try:
                stream, _ = self.server.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(stream,), daemon=True).start()

    def serve(self, stream):
        try:
            stream.settimeout(REACH_S + 10)
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if read_message(stream) != self.word:
                return
            stream.sendall(b"!")
            while True:
                order, count = struct.unpack("!cQ", read_exactly(stream, 9))
                if order == b"p":
                    stream.sendall(b"p")
                elif order == b"w" and count <= MOST_BYTES:
                    drain(stream, count)
                    stream.sendall(b"w")
                elif order == b"r" and count <= MOST_BYTES:
                    fill(stream, count)
                else:
                    return
        except (OSError, ValueError):
            pass
        finally:
            stream.close()


def meet(word, address, port):
    stream = connect(address, port, REACH_S)
    send_message(stream, word)
    read_exactly(stream, 1)
    return stream


def seconds_of(stream, order, count):
    begin = time.monotonic()
    stream.sendall(struct.pack("!cQ", order, count))
    if order == b"w":
        fill(stream, count)
        read_exactly(stream, 1)
    else:
        drain(stream, count)
    return max(time.monotonic() - begin, 1e-6)


def seconds_together(streams, order, count):
    """Of as many bytes over each of them at the same time."""
    failed = []

    def move(stream):
        try:
            seconds_of(stream, order, count)
        except OSError as error:
            failed.append(error)

    threads = [threading.Thread(target=move, args=(stream,)) for stream in streams]
    begin = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return max(time.monotonic() - begin, 1e-6)


def speed(streams, order, more):
    """Mbit/s in one direction: a first guess, then what takes about ROUND_S; of a fast link over
    several connections, which `more` adds."""
    taken = seconds_of(streams[0], order, FIRST_BYTES)
    count = FIRST_BYTES
    if taken < ROUND_S:
        count = int(min(MOST_BYTES, max(FIRST_BYTES, FIRST_BYTES * ROUND_S / taken)))
        taken = seconds_of(streams[0], order, count)
    one = count * 8e-6 / taken
    if one < FAST_MBIT:
        return one
    more(streams)
    together = seconds_together(streams, order, count)
    return max(one, len(streams) * count * 8e-6 / together)


def measure(stream, connect_again):
    streams = [stream]

    def more(streams):
        try:
            while len(streams) < STREAMS:
                streams.append(connect_again())
                streams[-1].settimeout(10)
        except OSError:
            pass  # with those that there are

    stream.settimeout(10)
    latencies = []
    for _ in range(PINGS):
        begin = time.monotonic()
        stream.sendall(struct.pack("!cQ", b"p", 0))
        read_exactly(stream, 1)
        latencies.append(time.monotonic() - begin)
    latency_us = sorted(latencies)[PINGS // 2] / 2 * 1e6
    try:
        return latency_us, min(speed(streams, b"w", more), speed(streams, b"r", more))
    finally:
        for other in streams[1:]:
            other.close()


class Meeting:
    """All nodes at the one at place 0: the table of addresses, and rounds that begin together."""

    def __init__(self, address, port, place, nodes, word):
        self.place, self.nodes, self.word = place, nodes, word
        self.address, self.port = address, port
        self.streams = {}  # at place 0: by place
        self.stream = None  # elsewhere

    def gather(self, mine):
        end = time.monotonic() + JOIN_S
        if self.place == 0:
            return self.gather_all(mine, end)
        while True:
            try:
                self.stream = connect(self.address, self.port, REACH_S)
                break
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.02)
        self.stream.settimeout(JOIN_S)
        send_message(self.stream, {"word": self.word, "place": self.place, **mine})
        return {int(k): v for k, v in read_message(self.stream).items()}

    def gather_all(self, mine, end):
        server = listen(self.port, self.nodes)
        table = {0: {"address": self.address, **mine}}
        while len(table) < self.nodes:
            server.settimeout(max(end - time.monotonic(), 0.001))
            try:
                stream, peer = server.accept()
            except socket.timeout:
                missing = sorted(set(range(self.nodes)) - set(table))
                raise TimeoutError("no word of place %s within %d s" % (", ".join(map(str, missing)), JOIN_S))
            try:
                stream.settimeout(REACH_S)
                stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                hello = read_message(stream)
                if hello.get("word") != self.word or hello["place"] in table:
                    stream.close()
                    continue
            except (OSError, ValueError, KeyError, AttributeError):
                stream.close()
                continue
            table[hello["place"]] = {"address": plain(peer[0]), "port": hello["port"], "torch": hello["torch"],
                                     "nccl": hello.get("nccl")}
            self.streams[hello["place"]] = stream
        server.close()
        for stream in self.streams.values():
            send_message(stream, table)
        return table

    def hand_out(self, text, seconds):
        """What place 0 says, everywhere."""
        if self.place == 0:
            for stream in self.streams.values():
                send_message(stream, text)
            return text
        self.stream.settimeout(seconds)
        return read_message(self.stream)

    def barrier(self, seconds, well=True):
        """Returns when every node came here: whether all of them were well."""
        if self.place == 0:
            for stream in self.streams.values():
                stream.settimeout(seconds)
                well = read_exactly(stream, 1) == b"y" and well
            for stream in self.streams.values():
                stream.sendall(b"y" if well else b"n")
            return well
        self.stream.settimeout(seconds)
        self.stream.sendall(b"y" if well else b"n")
        return read_exactly(self.stream, 1) == b"y"


def pairs_of(nodes):
    """Rounds of disjoint pairs, as in a tournament: each node meets each other one once."""
    places = list(range(nodes)) + ([None] if nodes % 2 else [])
    for _ in range(len(places) - 1):
        half = len(places) // 2
        yield [tuple(sorted((a, b))) for a, b in zip(places[:half], reversed(places[half:])) if None not in (a, b)]
        places = [places[0], places[-1]] + places[1:-1]


def try_peers(meeting, table, place, word):
    """Connections to all of higher place at once, so that dead ones cost one deadline together."""
    peers, streams = {}, {}

    def reach(other):
        there = table[other]
        fact = {"place": other, "address": there["address"], "ok": False, "why": ""}
        try:
            streams[other] = meet(word, there["address"], there["port"])
            fact["ok"] = True
        except OSError as error:
            fact["why"] = error.strerror or ("no answer within %g s" % REACH_S)
        peers[other] = fact

    threads = [threading.Thread(target=reach, args=(other,)) for other in sorted(table) if other > place]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    meeting.barrier(REACH_S + 10)
    for number, pairs in enumerate(pairs_of(len(table))):
        if number == ROUNDS:
            break
        for low, high in pairs:
            if low != place or high not in streams:
                continue
            try:
                there = table[high]
                again = functools.partial(meet, word, there["address"], there["port"])
                latency, mbit = measure(streams[high], again)
                peers[high].update(latency_us=latency, mbit=mbit)
            except OSError as error:
                peers[high].update(ok=False, why=text_of(error))
        meeting.barrier(40)
    for stream in streams.values():
        stream.close()
    return [peers[other] for other in sorted(peers)]


def all_reduce(address, port, place, nodes):
    """Times of two sizes, of the slowest node; raises when it does not work or gives another sum."""
    from datetime import timedelta

    import torch
    import torch.distributed as dist

    host = "[%s]" % address if ":" in address else address
    dist.init_process_group("gloo", init_method="tcp://%s:%d" % (host, port), world_size=nodes, rank=place,
                            timeout=timedelta(seconds=GROUP_S))
    taken = []
    for numbers, rounds in ((2048, 5), (1 << 20, 3)):
        times = []
        for _ in range(rounds):
            data = torch.full((numbers,), float(place + 1))
            begin = time.monotonic()
            dist.all_reduce(data)
            times.append(time.monotonic() - begin)
            if float(data[0]) != nodes * (nodes + 1) / 2 or float(data[-1]) != float(data[0]):
                raise ArithmeticError("the sum over %d nodes is %g" % (nodes, float(data[0])))
        taken.append(sorted(times)[rounds // 2])
    dist.barrier()
    dist.destroy_process_group()
    bytes_moved = 2 * (nodes - 1) / nodes * 4 * (1 << 20)
    return {"allreduce_us": taken[0] * 1e6, "allreduce_mbit": bytes_moved * 8e-6 / taken[1]}


class Nccl:
    """An all-reduce of one GPU of each node, by launch-nccl-test and the NCCL that torch will load."""

    def __init__(self, program):
        self.program = program  # empty: the job has no GPUs, and nothing is said of NCCL
        self.library = "libnccl.so.2"
        self.process = None
        try:
            spec = importlib.util.find_spec("nvidia.nccl")
        except ImportError:
            spec = None
        for place in (spec.submodule_search_locations if spec else None) or []:
            there = os.path.join(place, "lib", "libnccl.so.2")
            if os.path.exists(there):
                self.library = there

    def unable(self):
        """Why this node takes no part; None: there is nothing to test; empty: it can."""
        if not self.program:
            return None
        if not os.access(self.program, os.X_OK):
            return "there is no launch-nccl-test beside the agent: it was built without nvcc"
        try:
            done = subprocess.run([self.program, "probe", self.library], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, timeout=JOIN_S / 2)
            return self.answer(done.stdout).get("why", "")
        except (OSError, subprocess.SubprocessError) as error:
            return text_of(error)

    @staticmethod
    def answer(output):
        lines = output.decode(errors="replace").strip().splitlines()
        try:
            return dict(json.loads(lines[-1]))
        except (IndexError, ValueError, TypeError):
            return {"ok": False, "why": "launch-nccl-test said nothing" if not lines else lines[-1][:300]}

    def test(self, meeting, place, nodes):
        """All nodes at once. NCCL's own report tells the network it chose."""
        folder = tempfile.mkdtemp(prefix="launch-nccl-")
        report = os.path.join(folder, "report")
        env = dict(os.environ, NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS="INIT,NET,ENV", NCCL_DEBUG_FILE=report)
        try:
            self.process = subprocess.Popen(
                [self.program, self.library, str(place), str(nodes), str(int(NCCL_S))], env=env,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)  # communicate() sees no buffer of readline()
            first = self.process.stdout.readline() if place == 0 else b""
            word = meeting.hand_out(first.decode(errors="replace"), NCCL_S)
            if place != 0:
                self.process.stdin.write(word.encode() if word.startswith("id ") else b"none\n")
            output, _ = self.process.communicate(timeout=NCCL_S + 5)
            facts = dict(self.answer(output or first), tested=True)
            try:
                with open(report, errors="replace") as lines:
                    facts["transport"] = self.transport(lines.read(1 << 20))
            except OSError:
                pass
            return facts
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            return {"tested": True, "ok": False, "why": text_of(error)}
        finally:
            if self.process is not None:
                self.process.kill()
            shutil.rmtree(folder, ignore_errors=True)

    @staticmethod
    def transport(report):
        """"Socket" or "IB": `NCCL INFO Using network IB` (src/plugin/net.cc)."""
        mark = "Using network "
        at = report.rfind(mark)
        return report[at + len(mark):].split(None, 1)[0][:40] if at >= 0 else ""


def test_nccl(nccl, meeting, table, place, nodes):
    """Its facts; None when no node has anything to test."""
    said = [table[other].get("nccl") for other in sorted(table)]
    if all(why is None for why in said):
        return None
    for other, why in enumerate(said):
        if why is None or why:
            return {"ok": False, "why": "place %d: %s" % (other, why or "the job has no GPU there")}
    try:
        meeting.barrier(GROUP_S)
    except OSError:
        return {"ok": False, "why": "another node ended before"}
    return nccl.test(meeting, place, nodes)


def main():
    address, port, place, nodes, word = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
    facts = {"backend": "", "ok": False, "why": "", "peers": []}

    def give_up():
        facts["why"] = facts["why"] or "no end within %d s" % (JOIN_S + GROUP_S + NCCL_S + 40)
        emit(facts)
        os._exit(0)

    watchdog = threading.Timer(JOIN_S + GROUP_S + NCCL_S + 40, give_up)
    watchdog.daemon = True
    watchdog.start()
    meeting = Meeting(address, port + 1, place, nodes, word)
    try:
        answerer = Answerer(word, nodes)
        answerer.start()
        nccl = Nccl(os.environ.get("LAUNCH_NCCL_TEST", ""))
        table = meeting.gather({"port": answerer.port, "torch": importlib.util.find_spec("torch") is not None,
                                "nccl": nccl.unable()})
        facts["peers"] = try_peers(meeting, table, place, word)
        facts["ok"] = True
        meet = meeting.barrier(REACH_S, all(peer["ok"] for peer in facts["peers"]))
        if not meet:
            facts["why"] = "no all-reduce: some nodes do not reach each other"
        elif not all(there["torch"] for there in table.values()):
            facts["why"] = "no all-reduce: the interpreter has no torch on every node"
        else:
            facts["backend"] = "gloo"
            facts["ok"] = False
            facts.update(all_reduce(address, port + 2, place, nodes))
            facts["ok"] = True
        if meet:
            facts["nccl"] = test_nccl(nccl, meeting, table, place, nodes)
    except BaseException as error:
        facts["ok"] = False
        facts["why"] = text_of(error)
    emit(facts)
    os._exit(0)  # not through the destructors of a group that may hang


main()

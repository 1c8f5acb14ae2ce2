#!/usr/bin/env python3
"""A TCP proxy that delays, stalls and resets, for kernels without netem. Works through TLS.

    proxy.py SETTINGS LISTEN_HOST:PORT=TARGET_HOST:PORT ...

SETTINGS is a JSON file, read again when it changes:
    {"LISTEN_PORT": {"delay_ms": 200, "jitter_ms": 100, "stall": 0.02, "stall_ms": 1500, "resets": 3}}
delay and jitter hold each piece up; the bytes of one connection stay in order, as TCP has it, and
connections overtake each other. stall is the share of pieces that wait stall_ms longer, which is what
TCP makes of a lost packet. A larger number of resets aborts the connections of that port.
"""

import asyncio
import json
import os
import random
import socket
import struct
import sys

settings = {}
live = {}  # listening port -> transports


def of(port):
    return settings.get(str(port), {})


async def pump(reader, writer, port, rng):
    queue = asyncio.Queue(maxsize=256)
    loop = asyncio.get_running_loop()

    async def send():
        while True:
            due, piece = await queue.get()
            await asyncio.sleep(max(0.0, due - loop.time()))
            if piece is None:
                writer.write_eof()
                return
            writer.write(piece)
            await writer.drain()

    sender = asyncio.ensure_future(send())
    last = 0.0
    try:
        while True:
            piece = await reader.read(65536)
            now = of(port)
            wait = now.get("delay_ms", 0) + rng.uniform(-1, 1) * now.get("jitter_ms", 0)
            if rng.random() < now.get("stall", 0):
                wait += now.get("stall_ms", 0)
            last = max(last, loop.time() + max(0.0, wait) / 1000)
            await queue.put((last, piece or None))
            if not piece:
                break
        await sender
    finally:
        sender.cancel()


async def serve(reader, writer, port, target):
    rng = random.Random(f"{port}/{len(live[port])}")
    host, _, number = target.rpartition(":")
    try:
        there, back = await asyncio.open_connection(host, int(number))
    except OSError:
        writer.transport.abort()
        return
    both = (writer.transport, back.transport)
    live[port].update(both)
    try:
        await asyncio.gather(pump(reader, back, port, rng), pump(there, writer, port, rng))
    except (OSError, RuntimeError):
        pass
    finally:
        for transport in both:
            live[port].discard(transport)
            transport.abort()


def reset(transport):
    sock = transport.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


async def watch(path):
    global settings
    seen = None
    while True:
        try:
            now = os.stat(path).st_mtime_ns
            if now != seen:
                with open(path) as file:
                    new = json.load(file)
                for port, transports in live.items():
                    if new.get(str(port), {}).get("resets", 0) > of(port).get("resets", 0):
                        for transport in list(transports):
                            reset(transport)
                settings, seen = new, now
        except (OSError, ValueError):
            pass
        await asyncio.sleep(0.05)


async def main():
    for pair in sys.argv[2:]:
        here, _, target = pair.partition("=")
        host, _, port = here.rpartition(":")
        live[int(port)] = set()
        await asyncio.start_server(
            lambda r, w, p=int(port), t=target: serve(r, w, p, t), host, int(port))
    print("ready", flush=True)
    await watch(sys.argv[1])


asyncio.run(main())

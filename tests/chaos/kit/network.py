"""Hosts as network namespaces around a router: each link can be cut, also one way, without a word to anybody."""

import collections
import json
import os
import pathlib
import shlex
import subprocess
import sys

from kit.machine import must, run

PORT = 7470
PROXY = 7500  # + number of the node


class Network:
    """`controller` and one host per node behind a router. Nothing of it exists outside its namespaces."""

    def __init__(self, tag, nodes, work):
        self.tag = tag
        self.hosts = ["controller", *nodes]
        self.work = pathlib.Path(work)
        self.settings = {}
        self.settings_file = self.work / "proxy.json"
        self.proxy = None
        self.cuts = collections.Counter()  # by host: one that is cut twice is whole when both have ended

    def make(self):
        must("ip", "netns", "add", self.router)
        self.on_router("sysctl", "-qw", "net.ipv4.ip_forward=1")
        self.locals_last(self.router)
        must("ip", "-n", self.router, "link", "set", "lo", "up")
        for i, host in enumerate(self.hosts):
            ns, end = self.ns(host), self.end(host)
            must("ip", "netns", "add", ns)
            must("ip", "link", "add", end, "netns", self.router, "type", "veth", "peer", "name", "eth0", "netns", ns)
            must("ip", "-n", self.router, "addr", "add", f"10.214.{i}.1/24", "dev", end)
            must("ip", "-n", self.router, "link", "set", end, "up")
            for words in (["link", "set", "lo", "up"], ["addr", "add", f"{self.address(host)}/24", "dev", "eth0"],
                          ["link", "set", "eth0", "up"], ["route", "add", "default", "via", f"10.214.{i}.1"]):
                must("ip", "-n", ns, *words)
            self.locals_last(ns)

    @property
    def router(self):
        return f"{self.tag}-router"

    def ns(self, host):
        return f"{self.tag}-{host}"

    def end(self, host):
        return f"to{self.hosts.index(host)}"

    def address(self, host):
        return f"10.214.{self.hosts.index(host)}.2"

    def controller(self):
        return f"{self.address('controller')}:{PORT}"

    def proxy_for(self, node):
        i = self.hosts.index(node)
        return f"10.214.{i}.1:{PROXY + i}"

    def locals_last(self, ns):
        must("ip", "-n", ns, "rule", "add", "pref", "100", "lookup", "local")
        must("ip", "-n", ns, "rule", "del", "pref", "0")

    def on_router(self, *argv):
        return must("nsenter", f"--net=/run/netns/{self.router}", *argv)

    def inside(self, host, argv, hide_cgroups=False, boot_id=None):
        """`argv` as it runs on that host: its network and host name, no cgroups if they are hidden, and the boot
        that the file `boot_id` names."""
        name = self.router if host == "router" else self.ns(host)
        hide = "mount --make-rprivate / && umount -l /sys/fs/cgroup && " if hide_cgroups else ""
        hide += f"mount --bind {shlex.quote(str(boot_id))} /proc/sys/kernel/random/boot_id && " if boot_id else ""
        own_mounts = ["-m"] if hide else []
        return ["nsenter", f"--net=/run/netns/{name}", "unshare", "-u", *own_mounts, "sh", "-c",
                f"hostname {host} && {hide}exec \"$0\" \"$@\"", *map(str, argv)]

    def start_proxy(self):
        self.write_settings()
        pairs = [f"{self.proxy_for(node)}={self.controller()}" for node in self.hosts[1:]]
        self.proxy = subprocess.Popen(
            self.inside("router", [sys.executable, pathlib.Path(__file__).with_name("proxy.py"), self.settings_file, *pairs]),
            stdout=subprocess.PIPE, stderr=open(self.work / "proxy.log", "ab"), text=True)
        if self.proxy.stdout.readline().strip() != "ready":
            raise RuntimeError(f"the proxy did not start, see {self.work}/proxy.log")

    def write_settings(self):
        new = self.settings_file.with_suffix(".new")
        new.write_text(json.dumps(self.settings))
        os.replace(new, self.settings_file)

    def slow(self, node, **values):
        """Delay and stalls of everything between this node and the controller; none without values."""
        port = str(PROXY + self.hosts.index(node))
        resets = self.settings.get(port, {}).get("resets", 0)
        self.settings[port] = {**values, "resets": resets}
        self.write_settings()

    def reset(self, node):
        port = self.settings.setdefault(str(PROXY + self.hosts.index(node)), {})
        port["resets"] = port.get("resets", 0) + 1
        self.write_settings()

    def cut(self, host, cut):
        self.cuts[host] = max(0, self.cuts[host] + (1 if cut else -1))
        must("ip", "-n", self.router, "link", "set", self.end(host), "down" if self.cuts[host] else "up")

    def mute(self, host, on):
        """Nothing that the host sends arrives; it hears everything."""
        self.rule(self.router, on, "iif", self.end(host), "blackhole")

    def deaf(self, host, on):
        """Nothing arrives at the host; what it sends does."""
        self.rule(self.ns(host), on, "iif", "eth0", "blackhole")

    def rule(self, ns, on, *words):
        must("ip", "-n", ns, "rule", "add" if on else "del", "pref", "10", *words)

    def heal(self):
        self.cuts.clear()
        for host in self.hosts:
            self.cut(host, False)
            for ns, words in ((self.router, ["iif", self.end(host), "blackhole"]),
                              (self.ns(host), ["iif", "eth0", "blackhole"])):
                while run("ip", "-n", ns, "rule", "del", "pref", "10", *words).returncode == 0:
                    pass
            if host != "controller":
                self.slow(host)

    def close(self):
        if self.proxy is not None:
            self.proxy.kill()
            self.proxy.wait()
        for host in self.hosts:
            run("ip", "netns", "del", self.ns(host))
        run("ip", "netns", "del", self.router)

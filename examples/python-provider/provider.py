#!/usr/bin/env python3
"""A provider of the Sandbox Provider Protocol, version 1: sandboxes that are directories of this machine.

It does what is mandatory and input for commands, in Python's standard library alone (3.9 or newer, Linux).
`wire.py` is the connection, `files.py` the file verbs, `supervise.py` the parent of each command.
../../docs/writing-a-provider.md walks through all of it.
"""

import asyncio
import contextlib
import json
import os
import platform
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from files import MOST_BYTES, Fault, Tree, check_path, fault_of, to_bytes, to_name
from supervise import become_subreaper, descendants, kill_all, signal_all
from wire import Incoming, Outgoing, Wire, text_or_b64

NAME, VERSION = "python-example", "0.1.0"
CAPABILITIES = {"exec": {"stdin": {}}}
MOST_CALLS = 64  # At once: each command needs some descriptors, and a process has about a thousand.
SUPERVISE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "supervise.py")
ON_THE_LINE = 32 << 10  # Bytes of content up to which it travels in the message itself.

UNDECLARED = set("""probe attach list prepare update capture_state read_many glob grep fingerprint
    spawn proc_read proc_stdin proc_stop push_tree pull_tree""".split())

CODES = {
    "invalid_request": -32600, "method_not_found": -32601, "invalid_params": -32602, "internal": -32603,
    "cancelled": -32800, "unsupported_version": 1001, "not_initialized": 1002, "unsupported": 1003,
    "deadline_exceeded": 1004, "limit_exceeded": 1005, "busy": 1006, "sandbox_not_found": 1101, "lost": 1102,
    "conflict": 1103, "provider_unavailable": 1104, "unsupported_spec": 1107, "policy_unmet": 1108,
    "not_found": 1201, "already_exists": 1202, "not_a_file": 1203, "permission_denied": 1204, "outside_root": 1205,
    "io": 1206, "not_a_directory": 1207, "not_empty": 1208, "read_only": 1209, "no_space": 1210, "spawn_failed": 1303,
}
CHANGES = ("put", "edit", "make_directory", "rename", "set_mode", "link")
LIMITS = {"memory", "processes", "cpu", "open_files", "file_size", "disk", "wall_time", "concurrency"}


def error_object(fault):
    data = {"kind": fault.kind, "effect": fault.effect}
    if fault.subject is not None:
        data["subject"] = fault.subject if isinstance(fault.subject, str) else "a name that is no text"
    if fault.expected is not None:
        data["expected"] = fault.expected
    return {"code": CODES[fault.kind], "message": str(fault), "data": data}


def need(value, kind, what):
    """A parameter of the right type. True is no number here, although Python says so."""
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise Fault("invalid_params", "%s is missing or not what it must be" % what)
    return value


def natural(value, what):
    if need(value, int, what) < 0:
        raise Fault("invalid_params", "%s is below zero" % what)
    return value


def choice(value, known, what):
    if value not in known:
        raise Fault("invalid_params", "%s is none of %s" % (what, ", ".join(known)))
    return value


class Call:
    """One request, from its line to its answer."""

    def __init__(self, provider, id, method, params):
        self.provider, self.id, self.method, self.params = provider, id, method, params
        self.given_up = None  # The kind of error that it ends with, once it was given up.
        self.incoming, self.outgoing = {}, {}

    def give_up(self, kind):
        self.given_up = self.given_up or kind
        self.provider.wire.bell.ring()

    def check(self, effect="none"):
        if self.given_up:
            raise Fault(self.given_up, "the call was given up", effect)

    def receive(self, field):
        """Knows the stream of a byte field from the request on: its data may be in the next line."""
        if isinstance(field, dict) and isinstance(field.get("stream"), int):
            stream = field["stream"]
            if stream not in self.provider.incoming:
                self.incoming[stream] = self.provider.incoming[stream] = Incoming(self.provider.wire, stream)

    def send_on(self, stream):
        if stream is None:
            return None
        if natural(stream, "a stream") in self.provider.outgoing:
            raise Fault("invalid_params", "a stream of that id is open")
        self.outgoing[stream] = self.provider.outgoing[stream] = Outgoing(self.provider.wire, stream)
        return self.outgoing[stream]

    def close(self):
        for stream in self.incoming:
            del self.provider.incoming[stream]
        for stream, out in self.outgoing.items():
            del self.provider.outgoing[stream]
            out.close()

    async def field(self, field):
        """The bytes of a byte field of the request."""
        if "stream" in need(field, dict, "content"):
            length = natural(field.get("bytes"), "bytes")
            if field["stream"] not in self.incoming:
                raise Fault("invalid_params", "a stream of that id is open")
            return await self.incoming[field["stream"]].exactly(self, length)
        return field["text"].encode() if isinstance(field.get("text"), str) else to_bytes(field)

    async def byte_field(self, data, out):
        """A byte field of the answer: on the line, or on the stream that the request named."""
        if out is None or len(data) <= ON_THE_LINE:
            return text_or_b64(data)
        sent = await out.send(self, data)
        return {"stream": out.stream, "bytes": sent}


class Sandbox:
    def __init__(self, spec, generation):
        self.id, self.spec, self.generation = spec["sandbox"], spec, generation
        self.made = tempfile.mkdtemp(prefix="spp-python-") if spec.get("root") is None else None
        self.tree = Tree(self.made or spec["root"])
        self.env = environment(spec.get("policy", {}).get("env", {}))
        self.calls, self.left = set(), []

    def descriptor(self):
        policy = self.spec.get("policy", {})
        return {
            "sandbox": self.id, "generation": self.generation, "location": NAME, "provider": NAME,
            "platform": {"os": "linux", "arch": platform.machine()}, "root": to_name(self.tree.root),
            "shell": shutil.which("sh"),
            "network": "open", "capabilities": CAPABILITIES, "notes": ["a directory, with the provider's own privileges"],
            "limits": {kind: {"value": limit["value"], "enforced_by": "none"}
                       for kind, limit in policy.get("limits", {}).items()},
        }


def check_spec(spec):
    """Refuses what is asked for and cannot be had: never a weaker sandbox in silence."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", need(need(spec, dict, "spec").get("sandbox"), str, "sandbox")):
        raise Fault("invalid_params", "sandbox: not an id")
    policy = need(spec.get("policy", {}), dict, "policy")
    network = policy.get("network")
    if network not in (None, "open"):
        raise Fault("policy_unmet", "network: only 'open' can be had here")
    if policy.get("require"):
        raise Fault("policy_unmet", "nothing enforces %s here" % ", ".join(map(str, policy["require"])))
    if policy.get("mounts"):
        raise Fault("policy_unmet", "there are no mounts here")
    for kind, limit in policy.get("limits", {}).items():
        if limit.get("strength", "required") != "best_effort" or kind not in LIMITS:
            raise Fault("policy_unmet", "nothing enforces the limit %s here" % kind)
    if spec.get("template") is not None:
        raise Fault("unsupported_spec", "there are no templates here")
    if spec.get("lease_ms") is not None:
        raise Fault("unsupported", "a sandbox ends with its connection here, and no sooner")
    if spec.get("linger_ms") is not None:
        raise Fault("unsupported", "a sandbox ends with its connection here")
    if spec.get("root") is not None and not os.path.isabs(need(spec["root"], str, "root")):
        raise Fault("invalid_params", "root: not an absolute path")


def environment(policy):
    """What the processes of a sandbox begin with."""
    own = {name: value for name, value in os.environb.items() if not name.startswith(b"SPP_HOST")}
    inherit = policy.get("inherit", "all")
    if isinstance(inherit, dict):
        names = {to_bytes(name) for name in need(inherit.get("names"), list, "names")}
        own = {name: value for name, value in own.items() if name in names}
    elif choice(inherit, ("all", "nothing"), "inherit") == "nothing":
        own = {}
    return changed(own, policy.get("changes", []))


def changed(env, changes):
    env = dict(env)
    for change in need(changes, list, "env"):
        name = to_bytes(need(change, dict, "env").get("name"))
        value = None if change.get("value") is None else to_bytes(change["value"])
        if not name or b"=" in name or b"\0" in name + (value or b""):
            raise Fault("invalid_params", "env: no such variable can be")
        env.pop(name, None)
        if value is not None:
            env[name] = value
    return env


class Output:
    """One output stream of a command: its first and last bytes, or all of it to the host while it comes."""

    def __init__(self, policy, live):
        self.head_max, self.tail_max = (natural(policy.get(part, 512 << 10), part) for part in ("head", "tail"))
        self.log = natural(policy.get("log", 64 << 20), "log")
        self.live, self.total, self.head, self.tail = live, 0, bytearray(), bytearray()

    async def take(self, call, data):
        self.total += len(data)
        if self.total > self.log:
            call.provider.wire.bell.ring()
        if self.live:
            return await self.live.send(call, data)
        room = self.head_max - len(self.head)
        self.head += data[:room] if room > 0 else b""
        self.tail += data[room:] if room > 0 else data
        if len(self.tail) > 2 * self.tail_max + 65536:
            del self.tail[:-self.tail_max or len(self.tail)]

    async def result(self, call, out):
        if self.live:
            total = self.total if self.live.stopped else self.live.offset
            return {"total": total, "unlogged": max(0, total - self.log)}
        between = self.total - len(self.head) - min(len(self.tail), self.tail_max)
        tail = self.tail[-self.tail_max:] if self.tail_max else b""
        head = bytes(self.head)
        if between:
            head, tail = whole_characters(head, bytes(tail))
        else:
            head, tail = head + bytes(tail), b""
        answer = {"total": self.total, "dropped": self.total - len(head) - len(tail), "unlogged": max(0, self.total - self.log)}
        for part, data in (("head", head), ("tail", tail)):
            if part == "head" or between:
                answer[part] = await call.byte_field(data, out)
        return answer


def whole_characters(head, tail):
    """Drops the parts of a character that is cut in two at the end of one or at the start of the other."""
    for back, byte in enumerate(reversed(head[-3:]), 1):
        if byte >= 0xC0 and back < 2 + (byte >= 0xE0) + (byte >= 0xF0):
            head = head[:-back]
        if not 0x80 <= byte < 0xC0:
            break
    start = next((n for n, byte in enumerate(tail[:4]) if not 0x80 <= byte < 0xC0), 0)
    return head, tail[start:]


class Command:
    """A command under its supervisor (supervise.py)."""

    def __init__(self, loop, argv, env, cwd, with_input):
        self.loop, self.buffer, self.stdin = loop, b"", None
        self.job = {"argv": [os.fsdecode(part) for part in argv],
                    "env": {os.fsdecode(name): os.fsdecode(value) for name, value in env.items()}}
        self.control, theirs = socket.socketpair()
        with contextlib.ExitStack() as unless_it_starts, contextlib.ExitStack() as always:
            unless_it_starts.callback(self.control.close)
            always.callback(theirs.close)
            always.callback(os.close, cwd)

            def pipe(ours):  # Which end is ours: 0 to read, 1 to write.
                ends = os.pipe()
                unless_it_starts.callback(os.close, ends[ours])
                always.callback(os.close, ends[1 - ours])
                os.set_blocking(ends[ours], False)
                return ends[ours], ends[1 - ours]

            (self.stdout, out), (self.stderr, err) = pipe(0), pipe(0)
            source = subprocess.DEVNULL
            if with_input:
                self.stdin, source = pipe(1)
            # Its own environment is not the command's: the loader and Python would act on that.
            self.supervisor = subprocess.Popen(
                [sys.executable, "-I", "-S", SUPERVISE, str(theirs.fileno()), str(cwd)],
                stdin=source, stdout=out, stderr=err, pass_fds=(theirs.fileno(), cwd), start_new_session=True)
            unless_it_starts.pop_all()
        self.control.setblocking(False)

    async def order(self, order):
        with contextlib.suppress(OSError):  # It may have ended; `report` says so.
            await self.loop.sock_sendall(self.control, order.encode() + b"\n")

    async def report(self):
        """What the supervisor says next, or nothing if it has ended."""
        while b"\n" not in self.buffer:
            try:
                data = await self.loop.sock_recv(self.control, 65536)
            except OSError:
                data = b""
            if not data:
                return {}
            self.buffer += data
        line, _, self.buffer = self.buffer.partition(b"\n")
        return json.loads(line)

    async def pump(self, call, fd, output):
        """Takes what the command writes, as fast as `output` takes it."""
        while data := await self.when(self.loop.add_reader, self.loop.remove_reader, fd, lambda: os.read(fd, 65536)):
            await output.take(call, data)

    async def feed(self, call, field):
        """Gives the command its input, until it is all there or the command stops reading."""
        stream = call.incoming.get(field.get("stream"))
        try:
            while data := await stream.take(call) if stream else await call.field(field):
                while data:
                    written = await self.when(self.loop.add_writer, self.loop.remove_writer, self.stdin,
                                              lambda: os.write(self.stdin, data))
                    data = data[written:]
                if not stream:
                    break
        except BrokenPipeError:
            if stream:
                call.provider.wire.send({"method": "stream/stop", "params": {"stream": stream.stream}})
        except Fault:
            call.give_up("cancelled")  # Input that fails ends the run: the command must not take it for all.
        finally:
            os.close(self.stdin)
            self.stdin = None

    async def when(self, add, remove, fd, action):
        """Does something with a pipe, when that does not have to wait."""
        while True:
            try:
                return action()
            except BlockingIOError:
                ready = self.loop.create_future()
                add(fd, lambda: ready.done() or ready.set_result(None))
                try:
                    await ready
                finally:
                    remove(fd)

    def end(self):
        """Says that nobody waits for it any more: the supervisor ends what still runs."""
        with contextlib.suppress(OSError):
            self.control.shutdown(socket.SHUT_WR)

    def close(self):
        self.control.close()
        for fd in filter(None, (self.stdin, self.stdout, self.stderr)):
            os.close(fd)
        self.stdin = self.stdout = self.stderr = None


class Provider:
    def __init__(self, loop, source, sink):
        self.loop = loop
        self.wire = Wire(loop, source, sink, self.on_line, self.close)
        self.calls, self.incoming, self.outgoing, self.sandboxes = {}, {}, {}, {}
        self.ready, self.closing, self.ended = False, False, loop.create_future()
        self.generation = time.time_ns() // 1000  # Higher than those of any process before this one.
        self.commands = set()

    # Lines and answers

    def on_line(self, line, whole):
        if not whole:
            if found := re.match(rb'\{\s*(?:"jsonrpc"\s*:\s*"2.0"\s*,\s*)?"id"\s*:\s*(\d{1,16})\s*,', line):
                self.fail(int(found[1]), Fault("limit_exceeded", "the line is longer than %d bytes" % self.wire.line))
            return
        if line.startswith(b"\xef\xbb\xbf"):
            line = line[3:]
        if not line.strip():
            return
        try:
            message = json.loads(line.decode())
            method, id = message["method"], message.get("id")
            params = message.get("params", {})
            fine = isinstance(method, str) and message.get("jsonrpc") == "2.0"
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            fine = False
        if not fine:
            print("dropped a line of %d bytes that is no message" % len(line), file=sys.stderr, flush=True)
        elif id is None:
            if isinstance(params, dict):
                self.notified(method, params)
        elif isinstance(id, bool) or not isinstance(id, int) or not 0 <= id < 2**53:
            # Repeated where it can be: not what is long, and not a number that became infinite, which JSON cannot say.
            if (isinstance(id, (str, int)) or isinstance(id, float) and abs(id) < 1e300) and len(json.dumps(id)) < 100:
                self.fail(id, Fault("invalid_request", "an id is an integer from 0 to 2^53 - 1"))
        elif not isinstance(params, dict):
            self.fail(id, Fault("invalid_params", "params is an object"))
        else:
            self.requested(id, method, params)

    def answer(self, id, result, effect):
        if not self.wire.send({"id": id, "result": result}):
            self.fail(id, Fault("limit_exceeded", "the result is longer than a line; name a stream", effect))

    def fail(self, id, fault):
        self.wire.send({"id": id, "error": error_object(fault)})

    def notified(self, method, params):
        """Notifications are handled as they come, ahead of everything that is queued."""
        stream = params.get("stream")
        if method == "$/cancel" and params.get("id") in self.calls:
            self.calls[params["id"]].give_up("cancelled")
        elif method == "stream/data" and stream in self.incoming:
            self.incoming[stream].on_data(params)
        elif method == "stream/end" and stream in self.incoming:
            self.incoming[stream].on_end(params)
        elif method == "stream/credit" and stream in self.outgoing and isinstance(params.get("bytes"), int):
            self.outgoing[stream].on_credit(params["bytes"])
        elif method == "stream/stop" and stream in self.outgoing:
            self.outgoing[stream].on_stop()

    def requested(self, id, method, params):
        verb = getattr(self, "do_" + method, None) if re.fullmatch("[a-z_]+", method) else None
        fault = None
        if id in self.calls:
            fault = Fault("invalid_request", "the id is in use")
        elif not self.ready and method != "initialize":
            fault = Fault("not_initialized", "initialize comes first")
        elif method in UNDECLARED:
            fault = Fault("unsupported", "%s is not declared" % method)
        elif verb is None:
            fault = Fault("method_not_found", "there is no such method")
        elif method not in ("ping", "shutdown", "release") and (self.closing or len(self.calls) >= MOST_CALLS):
            fault = Fault(*(("provider_unavailable", "it shuts down") if self.closing else ("busy", "%d calls run" % MOST_CALLS)))
        if fault:
            return self.fail(id, fault)
        call = self.calls[id] = Call(self, id, method, params)
        if method == "exec":
            call.receive(params.get("stdin"))
        elif method == "write" and isinstance(params.get("changes"), list):
            for change in params["changes"]:
                put = change.get("put") if isinstance(change, dict) else None
                call.receive(put.get("content") if isinstance(put, dict) else None)
        self.loop.create_task(self.run(call, verb))

    async def run(self, call, verb):
        meta = call.params.get("_meta")
        deadline = meta.get("deadline_ms") if isinstance(meta, dict) else None
        timer = isinstance(deadline, int) and self.loop.call_later(deadline / 1000, call.give_up, "deadline_exceeded")
        effect = "none" if call.method in ("read", "stat_many") else "unknown"
        try:
            result = await verb(call)
        except Fault as fault:
            result = fault
        except OSError as error:
            result = fault_of(error, effect)
        except Exception as error:  # A defect of this program, or a parameter that it did not expect.
            print("%s failed: %r" % (call.method, error), file=sys.stderr, flush=True)
            result = Fault("internal", "a defect of the provider: %s" % type(error).__name__, effect)
        if timer:
            timer.cancel()
        call.close()
        del self.calls[call.id]
        self.wire.bell.ring()
        self.fail(call.id, result) if isinstance(result, Fault) else self.answer(call.id, result, effect)

    def sandbox(self, call):
        sandbox = self.sandboxes.get(need(call.params.get("sandbox"), str, "sandbox"))
        if sandbox is None:
            raise Fault("sandbox_not_found", "there is no sandbox of that id")
        if call.params.get("generation") != sandbox.generation:
            raise Fault("lost", "this life of the sandbox is over")
        return sandbox

    # The life of the connection and of sandboxes

    async def do_initialize(self, call):
        if self.ready:
            raise Fault("invalid_request", "initialize comes once")
        majors = call.params.get("protocol", {}).get("majors", [])
        if 1 not in majors:
            raise Fault("unsupported_version", "the host speaks %s, this provider [1]" % majors, expected="[1]")
        limits = call.params.get("limits", {})
        at_least = lambda name, default, least: max(least, limits.get(name, default))
        self.wire.line = min(self.wire.line, at_least("max_line_bytes", 1 << 20, 64 << 10))
        self.wire.stream_window = at_least("stream_window_bytes", 256 << 10, 64 << 10)
        self.wire.window = at_least("connection_window_bytes", 8 << 20, self.wire.stream_window)
        self.ready = True
        return {"protocol": {"major": 1}, "provider": {"name": NAME, "version": VERSION}, "capabilities": CAPABILITIES,
                "limits": {"max_in_flight": MOST_CALLS}, "instance": os.urandom(16).hex()}

    async def do_ping(self, call):
        return {}

    async def do_shutdown(self, call):
        self.closing = True
        grace = natural(call.params.get("grace_ms", 2000), "grace_ms")
        timer = self.loop.call_later(grace / 1000, lambda: [command.end() for command in self.commands])
        release = call.params.get("mode") == "release"
        await asyncio.gather(*(self.release(sandbox, "destroy") if release else self.end_all(sandbox)
                               for sandbox in list(self.sandboxes.values())))
        timer.cancel()
        return {}

    async def do_acquire(self, call):
        spec = need(call.params.get("spec"), dict, "spec")
        check_spec(spec)
        old = self.sandboxes.get(spec["sandbox"])
        if old is None:
            self.generation += 1
            old = self.sandboxes[spec["sandbox"]] = Sandbox(spec, self.generation)
        elif old.spec != spec:
            raise Fault("conflict", "a sandbox of that id has another spec")
        return {"descriptor": old.descriptor()}

    async def do_release(self, call):
        disposition = choice(call.params.get("disposition"), ("keep", "destroy"), "disposition")
        sandbox = self.sandboxes.get(call.params.get("sandbox"))
        if sandbox:
            await self.release(sandbox, disposition)
        return {"existed": sandbox is not None, "disposition": disposition}

    async def release(self, sandbox, disposition):
        self.sandboxes.pop(sandbox.id, None)
        await self.end_all(sandbox)
        os.close(sandbox.tree.fd)
        if sandbox.made and disposition == "destroy":
            await asyncio.to_thread(shutil.rmtree, sandbox.made)
        self.wire.send({"method": "sandbox/closed", "params": {
            "sandbox": sandbox.id, "generation": sandbox.generation, "reason": "released", "detail": ""}})

    async def end_all(self, sandbox):
        """Ends what runs in a sandbox, and returns when it has ended."""
        for call in sandbox.calls:
            call.give_up("cancelled")
        await self.wire.bell.until(lambda: not sandbox.calls)
        while sandbox.left:
            await self.finish(sandbox.left.pop())

    # Files

    async def do_read(self, call):
        sandbox, params = self.sandbox(call), call.params
        path, most = check_path(params.get("path")), min(natural(params.get("max", 16 << 20), "max"), MOST_BYTES)
        part = params.get("range", "all")
        if part != "all":
            names = {"bytes": ("offset", "length"), "lines": ("first", "count")}
            kind = choice(next(iter(need(part, dict, "range")), None), names, "range")
            values = [natural(need(part[kind], dict, kind).get(name), name) for name in names[kind]]
            if kind == "lines" and values[0] == 0:
                raise Fault("invalid_params", "first: lines are counted from 1")
        out = call.send_on(params.get("content"))
        data, content = await self.on_files(path, sandbox.tree.read, part, most)
        content["content"] = await call.byte_field(data, out)
        call.check()
        return content

    async def do_write(self, call):
        sandbox = self.sandbox(call)
        if choice(call.params.get("durability", "cached"), ("cached", "durable"), "durability") == "durable":
            raise Fault("unsupported", "files.durable is not declared")
        puts = []
        for change in need(call.params.get("changes"), list, "changes"):
            kind = choice(next(iter(need(change, dict, "a change")), None), CHANGES, "a change")
            if kind != "put":
                raise Fault("unsupported", "files.%s is not declared" % kind)
            put = need(change["put"], dict, "put")
            if put.get("precondition", "none") != "none":
                raise Fault("unsupported", "files.precondition is not declared")
            if natural(put.get("mode") or 0, "mode") > 0o777:
                raise Fault("invalid_params", "mode: 0 to 511")
            content = need(put.get("content"), dict, "content")
            if natural(content.get("bytes", 0), "bytes") > MOST_BYTES:
                raise Fault("limit_exceeded", "content of more than %d bytes" % MOST_BYTES)
            puts.append((check_path(put.get("path")), content, put.get("mode")))
        items = []
        for path, content, mode in puts:
            try:
                data = await call.field(content)
                items.append({"ok": await self.on_files(path, sandbox.tree.put, data, mode)})
            except Fault as fault:
                items.append({"error": error_object(fault)})
        return {"items": items}

    async def do_remove(self, call):
        sandbox, path = self.sandbox(call), check_path(call.params.get("path"))
        recursion = choice(call.params.get("recursion", "no"), ("no", "yes"), "recursion")
        return await self.on_files(path, sandbox.tree.remove, recursion)

    async def do_stat_many(self, call):
        sandbox, items = self.sandbox(call), []
        for path in [check_path(path) for path in need(call.params.get("paths"), list, "paths")]:
            try:
                items.append({"ok": await self.on_files(path, sandbox.tree.stat)})
            except Fault as fault:
                items.append({"error": error_object(fault)})
        return {"items": items}

    async def on_files(self, path, verb, *arguments):
        """Does a file verb in a thread: a slow disk holds nothing else up."""
        try:
            return await asyncio.to_thread(verb, path, *arguments)
        except OSError as error:
            fault = fault_of(error, "none")
        except Fault as raised:
            fault = raised
        fault.subject = to_name(path)
        raise fault

    # Commands

    async def do_exec(self, call):
        sandbox, params, process = self.sandbox(call), call.params, need(call.params.get("process"), dict, "process")
        if params.get("track") is not None or process.get("pty") is not None:
            raise Fault("unsupported", "exec.track and exec.pty are not declared")
        argv = [to_bytes(part) for part in need(process.get("argv"), list, "argv")]
        if not argv or not argv[0] or any(b"\0" in part for part in argv):
            raise Fault("invalid_params", "argv: empty, without a program, or with NUL")
        env, policy = changed(sandbox.env, process.get("env", [])), need(process.get("output", {}), dict, "output")
        beyond = choice(policy.get("beyond", "drop"), ("drop", "block", "kill"), "beyond")
        if beyond == "block":
            raise Fault("unsupported", "beyond: without proc_read nothing would ever unblock the command")
        live = choice(params.get("delivery", "at_end"), ("at_end", "live"), "delivery") == "live"
        after = choice(process.get("descendants", "kill"), ("kill", "leave"), "descendants")
        grace = natural(process.get("grace_ms", 500), "grace_ms")
        timeout = process.get("timeout_ms") if process.get("timeout_ms") is None else natural(process["timeout_ms"], "timeout_ms")
        outs = [call.send_on(params.get(name)) for name in ("stdout", "stderr")]
        if live and None in outs:
            raise Fault("invalid_params", "a live run needs the streams stdout and stderr")
        outputs = [Output(policy, out if live else None) for out in outs]
        if params.get("id") and any(other.params.get("id") == params["id"] for other in sandbox.calls):
            raise Fault("conflict", "a command of that id runs")
        path = check_path(process.get("cwd", "."))
        call.check()
        cwd = await self.on_files(path, sandbox.tree.open_directory)

        started = time.monotonic_ns()
        command = Command(self.loop, argv, env, cwd, params.get("stdin") is not None)
        self.commands.add(command)
        sandbox.calls.add(call)
        work, done = [], {}
        try:
            await command.order(json.dumps(command.job))
            report = await command.report()
            if "started" not in report:
                raise Fault(report.get("failed", "io"), "%s: %s" % (os.fsdecode(argv[0]), report.get("detail", "no supervisor")))
            pumps = [self.loop.create_task(command.pump(call, fd, output))
                     for fd, output in zip((command.stdout, command.stderr), outputs)]
            work += pumps
            if command.stdin is not None:
                work.append(self.loop.create_task(command.feed(call, params["stdin"])))
            status, done = await self.watch(call, command, outputs, pumps, beyond, timeout, grace, after)
            duration = (time.monotonic_ns() - started) // 1000
        finally:
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)
            if done and done["done"]["left"]:
                sandbox.left.append(command)
            else:
                await self.finish(command)
            sandbox.calls.discard(call)
            self.wire.bell.ring()
        if call.given_up == "deadline_exceeded":
            call.check("unknown")
        answer = {"id": params.get("id") or "exec-%d" % call.id, "exit": {"status": status, "duration_us": duration}}
        if done:
            answer["exit"].update(survivors=done["done"], usage=done["usage"])
        for name, output, out in zip(("stdout", "stderr"), outputs, outs):
            answer[name] = await output.result(call, out)
        return answer

    async def watch(self, call, command, outputs, pumps, beyond, timeout, grace, after):
        """Sees a command to its end. Returns its status, and what the supervisor says of it."""
        timed_out = self.loop.create_future()
        timer = None if timeout is None else self.loop.call_later(timeout / 1000, timed_out.set_result, None)

        def reason():
            if call.given_up:
                return "cancelled"
            if timed_out.done():
                return "timed_out"
            return "output_limit" if beyond == "kill" and any(output.total > output.log for output in outputs) else None

        ended = self.loop.create_task(command.report())
        stop = self.loop.create_task(self.wire.bell.until(reason))
        timed_out.add_done_callback(lambda _: self.wire.bell.ring())
        await asyncio.wait((ended, stop), return_when=asyncio.FIRST_COMPLETED)
        why = None if ended.done() else reason()
        if why:
            await command.order("stop %d" % grace)
        report, done = await ended, {}
        stop.cancel()
        timer and timer.cancel()
        if report and why:
            done = await command.report()  # Nothing is left, so the pipes have an end.
        quiet = 0  # What is still in them is read, for 300 ms in which the host does not owe credit.
        while quiet < 15 and (await asyncio.wait(pumps, timeout=0.02))[1]:
            quiet += not any(output.live and output.live.waiting for output in outputs)
        if report and not why:
            await command.order(after)
            done = await command.report()
        return why or status_of(report["exited"]) if done else "lost", done  # Somebody may have killed the supervisor.

    async def finish(self, command):
        """Ends what is left of a command, and returns when nothing is."""
        command.end()
        while await command.report():
            pass
        command.close()
        command.supervisor.wait()
        self.commands.discard(command)
        if command.supervisor.returncode != 0:
            await self.sweep()

    async def sweep(self):
        """Ends what lost its supervisor and so became a child of ours: a command may kill what it likes."""
        ended = set()
        while True:
            kept = {command.supervisor.pid for command in self.commands}
            kept = kept.union(*map(descendants, kept))
            strays = descendants(os.getpid()).keys() - kept
            ended |= strays
            signal_all(strays, signal.SIGKILL)
            if not strays:
                break
            await asyncio.sleep(0.01)
        for pid in ended:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)

    def close(self):
        """The host is gone, or says that it is enough."""
        if not self.ended.done():
            self.ended.set_result(None)

    async def serve(self):
        become_subreaper()
        self.loop.add_signal_handler(signal.SIGTERM, self.close)
        self.wire.start()
        await self.ended
        self.closing = True
        for call in list(self.calls.values()):
            call.give_up("cancelled")
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self.wire.bell.until(lambda: not self.calls), 1)
        kill_all(os.getpid(), lambda: None)
        for sandbox in self.sandboxes.values():
            if sandbox.made:
                shutil.rmtree(sandbox.made, ignore_errors=True)
        self.wire.flush(0.3)


def status_of(wait_status):
    if os.WIFSIGNALED(wait_status):
        return {"signalled": {"signal": os.WTERMSIG(wait_status), "core": os.WCOREDUMP(wait_status)}}
    return {"exited": {"code": os.WEXITSTATUS(wait_status)}}


async def run(source, sink):
    await Provider(asyncio.get_running_loop(), source, sink).serve()
    os._exit(0)  # Not the usual end: it would wait for the threads, and one of them may wait for the host.


def main():
    if sys.argv[1:] == ["--spp-manifest"]:
        print(json.dumps({"name": NAME, "version": VERSION, "protocol": {"majors": [1]}, "capabilities": CAPABILITIES}))
        return 0
    if "SPP_HOST" not in os.environ:
        print("This is a provider of the Sandbox Provider Protocol: a host starts it, such as `spp`.", file=sys.stderr)
        return 64
    # The connection moves to descriptors that no child inherits, and no stray print can reach it.
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    asyncio.run(run(source, sink))


if __name__ == "__main__":
    sys.exit(main())

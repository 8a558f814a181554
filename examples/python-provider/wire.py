"""The connection: lines in and out, and streams of bytes under credit (clauses 2 and 5 of the protocol)."""

import base64
import collections
import json
import os
import threading

from files import Fault

LINE = 1 << 20  # Longest line, either way, unless the other side takes less.
WINDOW = 256 << 10  # Credit of each stream towards us.
CHUNK = 32 << 10  # Bytes of one data message.
COST = 512  # What a data message costs beside its bytes.


class Bell:
    """Wakes whoever waits for something to become true, each time that something has changed."""

    def __init__(self, loop):
        self.loop, self.waiting = loop, set()

    def ring(self):
        for future in self.waiting:
            if not future.done():
                future.set_result(None)
        self.waiting.clear()

    async def until(self, condition):
        while not condition():
            future = self.loop.create_future()
            self.waiting.add(future)
            await future


class Wire:
    """Reads and writes lines in two threads, so that neither direction ever waits for the other."""

    def __init__(self, loop, source, sink, on_line, on_end):
        self.loop, self.source, self.sink = loop, source, sink
        self.on_line, self.on_end = on_line, on_end
        self.line, self.stream_window, self.window = LINE, WINDOW, 8 << 20  # What the host receives at most.
        self.bell = Bell(loop)
        self.owed = 0  # Of `window`, over all streams towards the host.
        self.control, self.data = collections.deque(), collections.deque()
        self.changed, self.writing = threading.Condition(), False
        self.ahead = threading.BoundedSemaphore(64)  # Lines that were read and not yet looked at.

    def start(self):
        for work in (self._read, self._write):
            threading.Thread(target=work, daemon=True).start()

    def _read(self):
        while line := self.source.readline(LINE + 2):
            end = line
            while end and not end.endswith(b"\n"):  # Too long: the rest is passed over.
                end = self.source.readline(LINE)
            if not end:
                break  # A line that the end cuts off is no message.
            self.ahead.acquire()
            self._call(self._take, line.rstrip(b"\r\n"), line is end)
        self._call(self.on_end)

    def _take(self, line, whole):
        self.ahead.release()
        self.on_line(line, whole and len(line) <= self.line)

    def _call(self, function, *arguments):
        try:
            self.loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            pass  # The loop has ended, and this thread is about to.

    def send(self, message):
        """Sends a message other than data, ahead of all data; says no to one that is too long."""
        return self._put(self.control, message, None)

    async def send_data(self, message):
        """Sends a data message and returns when it is written: who produces bytes waits for who takes them."""
        written = self.loop.create_future()
        self._put(self.data, message, written)
        await written

    def _put(self, lane, message, written):
        line = json.dumps(dict({"jsonrpc": "2.0"}, **message), ensure_ascii=False, separators=(",", ":"))
        line = line.encode("utf-8", "replace")
        if len(line) > self.line:
            return False
        with self.changed:
            lane.append((line + b"\n", written))
            self.changed.notify_all()
        return True

    def _write(self):
        while True:
            with self.changed:
                self.writing = False
                self.changed.notify_all()
                self.changed.wait_for(lambda: self.control or self.data)
                line, written = (self.control or self.data).popleft()
                self.writing = True
            try:
                self.sink.write(line)
                self.sink.flush()
            except OSError:
                return self._call(self.on_end)  # The host no longer reads.
            if written:
                self._call(done, written)

    def flush(self, seconds):
        with self.changed:
            self.changed.wait_for(lambda: not (self.control or self.data or self.writing), seconds)


def done(future):
    if not future.done():  # Its call may have ended meanwhile.
        future.set_result(None)


class Incoming:
    """A stream from the host: what has come and was not taken, never more than the window."""

    def __init__(self, wire, stream):
        self.wire, self.stream = wire, stream
        self.pieces, self.seq, self.offset = collections.deque(), 0, 0
        self.owed, self.taken = 0, 0  # Credit that is out, and how much of it may be given back.
        self.ended, self.broken = False, None

    def on_data(self, data):
        try:
            piece = data["text"].encode() if "text" in data else base64.b64decode(data["b64"], validate=True)
            fits = (data["seq"], data["offset"]) == (self.seq, self.offset) and not self.ended
        except (KeyError, ValueError, AttributeError, TypeError):
            fits, piece = False, b""
        self.owed += len(piece) + COST
        if not fits or self.owed > WINDOW:
            return self.fail("data of a stream is malformed, has a gap, or exceeds its credit")
        self.seq, self.offset = self.seq + 1, self.offset + len(piece)
        self.pieces.append(piece)
        self.wire.bell.ring()

    def on_end(self, end):
        if end.get("bytes") != self.offset:
            return self.fail("the stream ended early, or lost something on the way")
        self.ended = True
        self.wire.bell.ring()

    def fail(self, why):
        self.broken = self.broken or why
        self.pieces.clear()
        self.wire.bell.ring()

    async def take(self, call, most=CHUNK):
        """The next bytes, at most this many; nothing at the end."""
        while True:
            await self.wire.bell.until(lambda: self.pieces or self.ended or self.broken or call.given_up)
            call.check()
            if self.broken:
                raise Fault("invalid_request", self.broken)
            if not self.pieces:
                return b""
            piece = self.pieces.popleft()
            self.taken += min(len(piece), most)
            if len(piece) > most:
                self.pieces.appendleft(piece[most:])
            else:
                self.taken += COST
            # A quarter: with every call reading a stream, no two can hold up each other by the connection's window.
            if self.taken >= WINDOW // 4:
                self.wire.send({"method": "stream/credit", "params": {"stream": self.stream, "bytes": self.taken}})
                self.owed, self.taken = self.owed - self.taken, 0
            if piece:
                return piece[:most]

    async def exactly(self, call, length):
        data = bytearray()
        while len(data) < length:
            piece = await self.take(call, length - len(data))
            if not piece:
                raise Fault("invalid_request", "the stream has fewer bytes than the request says")
            data += piece
        return bytes(data)


class Outgoing:
    """A stream to the host. Sending waits for credit."""

    def __init__(self, wire, stream):
        self.wire, self.stream = wire, stream
        self.seq, self.offset, self.owed, self.stopped, self.waiting = 0, 0, 0, False, False

    def room(self):
        """Bytes that one more message may carry now."""
        left = min(self.wire.stream_window - self.owed, self.wire.window - self.wire.owed)
        return 0 if self.stopped else min(CHUNK, left - COST)

    async def send(self, call, data):
        """Sends all of it and returns how much that was: less if the host wants no more, or the call is given up."""
        before = self.offset
        while data and not self.stopped:
            self.waiting = True
            await self.wire.bell.until(lambda: self.room() > 0 or self.stopped or call.given_up)
            self.waiting = False
            if self.room() <= 0:
                break
            piece, data = data[:self.room()], data[self.room():]
            self.owed += len(piece) + COST
            self.wire.owed += len(piece) + COST
            message = {"stream": self.stream, "seq": self.seq, "offset": self.offset, **text_or_b64(piece)}
            self.seq, self.offset = self.seq + 1, self.offset + len(piece)
            await self.wire.send_data({"method": "stream/data", "params": message})
        return self.offset - before

    def on_credit(self, amount):
        amount = min(amount, self.owed)
        self.owed -= amount
        self.wire.owed -= amount
        self.wire.bell.ring()

    def on_stop(self):
        self.stopped = True
        self.wire.bell.ring()

    def close(self):
        """The answer ends the stream, and gives back what was out of the connection's window."""
        self.on_credit(self.owed)


def text_or_b64(data):
    """Bytes in the shorter of the two forms that JSON has for them."""
    try:
        text = data.decode()
        if len(json.dumps(text, ensure_ascii=False)) <= len(data) * 4 / 3 + 8:
            return {"text": text}
    except UnicodeDecodeError:
        pass  # No text, or a character is cut in two.
    return {"b64": base64.b64encode(data).decode()}

"""The file verbs on one directory, and how a path is kept inside it.

A path is never judged by its text and never handed to the system as a whole: between a check and the use
of a path, a process of the sandbox may put a link there. It is walked instead, one component at a time,
each opened relative to the directory before (`dir_fd`) with O_NOFOLLOW and O_PATH, which opens neither
FIFOs nor devices. A link is read and its text walked in the same way; what leads above the root fails.
"""

import base64
import contextlib
import os
import stat

MOST_BYTES = 64 << 20  # of one file that is read or written


class Fault(Exception):
    """An error as the protocol has it. `effect` is "none" only where nothing has happened."""

    def __init__(self, kind, detail, effect="none", subject=None, expected=None):
        super().__init__(detail)
        self.kind, self.effect, self.subject, self.expected = kind, effect, subject, expected


# What the system's errors are called in the protocol.
KINDS = [(FileNotFoundError, "not_found"), (FileExistsError, "already_exists"), (PermissionError, "permission_denied"),
         (NotADirectoryError, "not_a_directory"), (IsADirectoryError, "not_a_file")]
NUMBERS = {28: "no_space", 122: "no_space", 30: "read_only", 39: "not_empty"}  # ENOSPC, EDQUOT, EROFS, ENOTEMPTY


def fault_of(error, effect):
    """An `OSError` as a fault."""
    kind = NUMBERS.get(error.errno) or next((kind for type, kind in KINDS if isinstance(error, type)), "io")
    return Fault(kind, error.strerror or str(error), effect)


def to_bytes(name):
    """A name form: a string, or {"b64"}."""
    with contextlib.suppress(ValueError, TypeError, KeyError):
        return name.encode() if isinstance(name, str) else base64.b64decode(name["b64"], validate=True)
    raise Fault("invalid_params", "a name is a string, or an object with b64")


def to_name(data):
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(data).decode()}


def count_lines(data):
    return data.count(b"\n") + (not data.endswith(b"\n") if data else 0)


def check_path(path):
    path = to_bytes(path)
    parts = path.split(b"/")
    if not path or b"\0" in path or b".." in parts or len(path) > 4096 or max(map(len, parts)) > 255:
        raise Fault("invalid_params", "path: empty, with NUL or '..', or too long", subject=to_name(path))
    return path


class Tree:
    """A directory, and the file verbs on it. Paths have been through `check_path`."""

    def __init__(self, root):
        self.root = os.fsencode(os.path.realpath(root))
        self.fd = os.open(self.root, os.O_PATH | os.O_DIRECTORY)

    def relative(self, path):
        """The components of a path below the root; of an absolute one, below the root's own name."""
        parts = [part for part in path.split(b"/") if part not in (b"", b".")]
        if path.startswith(b"/"):
            top = [part for part in self.root.split(b"/") if part]
            if parts[:len(top)] != top:
                raise Fault("outside_root", "the path leaves the sandbox")
            del parts[:len(top)]
        return parts

    @contextlib.contextmanager
    def walk(self, path, last_link="follow", make_parents=None):
        """Yields (directory, name, entry) for a path: two descriptors, and None for an entry that is not there.

        The name is None where the path leads to the root, or through a link to a directory on the way.
        Directories that are made on the way are noted in `make_parents`, a list.
        """
        opened, links = [], 0
        way = [self.fd]  # The directories from the root to here, for '..' in the text of a link.
        todo = self.relative(path)[::-1]
        name, entry = None, self.fd
        try:
            while todo:
                name = todo.pop()
                if name == b"..":
                    if len(way) == 1:
                        raise Fault("outside_root", "a link leads out of the sandbox")
                    way.pop()
                    name, entry = None, way[-1]
                    continue
                try:
                    entry = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=way[-1])
                except FileNotFoundError:
                    if not todo:
                        entry = None
                        break
                    if make_parents is None:
                        raise
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(name, dir_fd=way[-1])
                        make_parents.append(name)
                    todo.append(name)
                    continue
                opened.append(entry)
                kind = os.fstat(entry).st_mode
                if stat.S_ISLNK(kind) and (todo or last_link == "follow"):
                    links += 1
                    if links > 40:
                        raise Fault("io", "too many links on the way, or a loop of them")
                    target = os.readlink(b"", dir_fd=entry)
                    todo += self.relative(target)[::-1]
                    if target.startswith(b"/"):
                        del way[1:]
                    name, entry = None, way[-1]
                elif todo:
                    if not stat.S_ISDIR(kind):
                        raise NotADirectoryError(20, "a part of the path is not a directory")
                    way.append(entry)
            yield way[-1], name, entry
        finally:
            for fd in opened:
                os.close(fd)

    def open_directory(self, path):
        """A directory's descriptor, for a command to start in."""
        with self.walk(path) as (_, _, entry):
            if entry is None:
                raise FileNotFoundError(2, "the directory is not there")
            return os.open("/proc/self/fd/%d" % entry, os.O_RDONLY | os.O_DIRECTORY)

    def read(self, path, range, most):
        with self.walk(path) as (_, _, entry):
            if entry is None:
                raise FileNotFoundError(2, "nothing is there")
            if not stat.S_ISREG(os.fstat(entry).st_mode):
                raise Fault("not_a_file", "it is not a regular file")
            # Opened by its descriptor: this is the file that was looked at, whatever has the name now.
            with open("/proc/self/fd/%d" % entry, "rb") as file:
                offset, data = read_range(file, range, most)
                info = os.fstat(file.fileno())
        content = {"offset": offset, "total_bytes": info.st_size, "mode": info.st_mode & 0o777,
                   "modified": moment(info.st_mtime_ns), "text": text_facts(data, offset)}
        if offset == 0 and len(data) == info.st_size:
            content["total_lines"] = count_lines(data)
        return data, content

    def put(self, path, data, mode):
        made = []
        try:
            with self.walk(path, make_parents=made) as (directory, name, entry):
                return self.replace(directory, name, entry, data, mode)
        except OSError as error:
            raise fault_of(error, "unknown" if made else "none")
        except Fault as fault:
            fault.effect = "unknown" if made else fault.effect  # The directories stay.
            raise

    def replace(self, directory, name, entry, data, mode):
        """Writes beside the file and renames, so that nobody ever sees a part of the content."""
        lines_before, keep = 0, None
        if entry is not None:
            info = os.fstat(entry)
            if name is None or not stat.S_ISREG(info.st_mode):
                raise Fault("not_a_file", "something else than a regular file is there")
            if not os.access("/proc/self/fd/%d" % entry, os.W_OK):
                raise PermissionError(13, "the file may not be written")
            keep = info.st_mode & 0o777
            with open("/proc/self/fd/%d" % entry, "rb") as file:
                last = b"\n"
                for piece in iter(lambda: file.read(1 << 20), b""):
                    lines_before, last = lines_before + piece.count(b"\n"), piece[-1:]
                lines_before += last != b"\n"
        beside = b".spp-" + os.urandom(8).hex().encode()
        fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644, dir_fd=directory)
        try:
            with open(fd, "wb") as file:
                file.write(data)
                if mode is not None or keep is not None:
                    os.fchmod(fd, keep if mode is None else mode)
            os.rename(beside, name, src_dir_fd=directory, dst_dir_fd=directory)
        except BaseException:
            os.unlink(beside, dir_fd=directory)
            raise
        return {"existed": entry is not None, "bytes": len(data), "line_delta": count_lines(data) - lines_before,
                "replaced": 0}

    def remove(self, path, recursion):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), self.walk(path, last_link="keep") as (directory, name, entry):
            if name is None:
                raise Fault("invalid_params", "path: the root is not removed")
            if entry is None:
                return {"existed": False, "entries": 0}
            if not stat.S_ISDIR(os.fstat(entry).st_mode):
                os.unlink(name, dir_fd=directory)
                return {"existed": True, "entries": 1}
            removed = []
            try:
                if recursion == "yes":
                    empty(entry, removed)
                os.rmdir(name, dir_fd=directory)
            except OSError as error:
                raise fault_of(error, "unknown" if removed else "none")
            return {"existed": True, "entries": len(removed) + 1}
        return {"existed": False, "entries": 0}

    def stat(self, path):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), self.walk(path, last_link="keep") as (_, _, entry):
            if entry is None:
                return None
            info = os.fstat(entry)
            kind = next((kind for test, kind in ((stat.S_ISREG, "file"), (stat.S_ISDIR, "directory"), (stat.S_ISLNK, "link"))
                         if test(info.st_mode)), "special")
            answer = {"kind": kind, "size": info.st_size, "mode": info.st_mode & 0o777, "inode": str(info.st_ino),
                      "links": info.st_nlink, "modified": moment(info.st_mtime_ns), "changed": moment(info.st_ctime_ns)}
            if kind == "link":
                answer["target"] = to_name(os.readlink(b"", dir_fd=entry))
            return answer
        return None


def empty(directory, removed):
    """Removes what is in a directory, links themselves."""
    fd = os.open("/proc/self/fd/%d" % directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for name in os.listdir(fd):
            if stat.S_ISDIR(os.lstat(name, dir_fd=fd).st_mode):
                below = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY, dir_fd=fd)
                try:
                    empty(below, removed)
                finally:
                    os.close(below)
                os.rmdir(name, dir_fd=fd)
            else:
                os.unlink(name, dir_fd=fd)
            removed.append(name)
    finally:
        os.close(fd)


def read_range(file, range, most):
    """The offset and the bytes of a part of a file."""
    size = os.fstat(file.fileno()).st_size
    too_large = lambda part: Fault("limit_exceeded", "the part has %s bytes, more than the %d asked for at most" % (part, most))
    if isinstance(range, dict) and "lines" in range:
        offset, lines = 0, []
        for _ in iter_lines(file, range["lines"]["first"] - 1):
            offset = file.tell()
        for line in iter_lines(file, range["lines"]["count"]):
            lines.append(line)
            if file.tell() - offset > most:
                raise too_large(file.tell() - offset)
        return offset, b"".join(lines)
    if range == "all":
        offset, length = 0, size
    else:
        offset, length = range["bytes"]["offset"], range["bytes"]["length"]
    length = max(0, min(length, size - offset))
    if length > most:
        raise too_large(length)
    file.seek(min(offset, size))
    return min(offset, size), file.read(length)


def iter_lines(file, count):
    """The next lines, in pieces: nothing says how long one is."""
    while count > 0 and (piece := file.readline(1 << 20)):
        count -= piece.endswith(b"\n")
        yield piece


def text_facts(data, offset):
    """What the bytes look like as text."""
    crlf = data.count(b"\r\n")
    lf = data.count(b"\n") - crlf
    newline = "mixed" if crlf and lf else "crlf" if crlf else "lf" if lf else "none"
    marks = {b"\xff\xfe": "utf16_le", b"\xfe\xff": "utf16_be"}
    if offset == 0 and data[:2] in marks:
        return {"encoding": marks[data[:2]], "bom": True, "newline": newline}
    encoding = "binary"
    with contextlib.suppress(UnicodeDecodeError):
        if b"\0" not in data:
            data.decode()
            encoding = "utf8"
    return {"encoding": encoding, "bom": offset == 0 and data.startswith(b"\xef\xbb\xbf"), "newline": newline}


def moment(ns):
    return {"s": ns // 10**9, "ns": ns % 10**9}

"""Runs one command and answers for everything that it starts.

Started by provider.py, once for each `exec`, as `supervise.py CONTROL CWD` (two descriptors), with the
command's standard streams as its own. It is a *subreaper*: a process below it that loses its parent
becomes its child, daemons that left their session included. So whatever the command leaves behind is
found here, and is this command's and nobody else's. When the control socket ends, because the provider
closed it or was killed, everything ends.

Read from CONTROL, a line each:  {"argv", "env"}, then "stop GRACE_MS", "kill" or "leave"
Written to it, a JSON line each: {"started": PID} or {"failed": KIND, "detail"}, {"exited": WAIT_STATUS},
                                 {"done": {"killed", "left", "left_total"}, "usage"}
"""

import ctypes
import errno
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import time


def become_subreaper():
    if ctypes.CDLL(None, use_errno=True).prctl(36, 1, 0, 0, 0) != 0:  # PR_SET_CHILD_SUBREAPER
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def descendants(ancestor):
    """The processes below one, as {pid: name}; those that ended and wait to be reaped are not."""
    below, alive = {}, {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/stat" % entry, "rb") as file:
                head, _, tail = file.read().rpartition(b")")
        except OSError:
            continue  # It ended meanwhile.
        state, parent = tail.split()[:2]
        below.setdefault(int(parent), []).append(int(entry))
        if state not in (b"Z", b"X"):
            alive[int(entry)] = head.partition(b"(")[2].decode(errors="replace")
    found, todo = {}, [ancestor]
    while todo:
        for pid in below.get(todo.pop(), ()):
            todo.append(pid)
            if pid in alive:
                found[pid] = alive[pid]
    return found


def signal_all(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def kill_all(ancestor, reap):
    """Kills until nothing is left: a process may fork while it is looked for. Returns how many."""
    killed = set()
    while found := descendants(ancestor):
        signal_all(found, signal.SIGKILL)
        killed.update(found)
        time.sleep(0.002)
        reap()
    return len(killed)


def why_not(error, argv, env):
    """What kept a program from being started, as a kind of the protocol."""
    places = [""] if "/" in argv[0] else os.get_exec_path(env)
    found = [path for path in (os.path.join(place, argv[0]) for place in places) if os.path.exists(path)]
    if error.errno == errno.E2BIG:
        return "limit_exceeded"
    if not found and error.errno in (errno.ENOENT, errno.ENOTDIR):
        return "not_found"
    if all(os.path.isdir(path) for path in found):
        return "not_a_file"
    return "permission_denied" if error.errno == errno.EACCES else "spawn_failed"


def main():
    control, cwd = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])
    become_subreaper()
    os.fchdir(cwd)
    wake, waker = os.pipe()  # Gets a byte for each SIGCHLD, so that `select` below sees it.
    os.set_blocking(wake, False)
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)

    orders = control.makefile("rb")
    say = lambda message: control.sendall(json.dumps(message).encode() + b"\n")
    job = json.loads(orders.readline())
    try:
        leader = subprocess.Popen(job["argv"], env=job["env"], start_new_session=True)
    except OSError as error:
        say({"failed": why_not(error, job["argv"], job["env"]), "detail": os.strerror(error.errno)})
        return
    say({"started": leader.pid})
    null = os.open("/dev/null", os.O_RDWR)
    for standard in (0, 1, 2):  # The pipes are the command's alone: their end is the end of its output.
        os.dup2(null, standard)

    def reap():
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == leader.pid:
                say({"exited": status})

    def done(left):
        names = [{"pid": pid, "name": name} for pid, name in list(left.items())[:16]]
        used = resource.getrusage(resource.RUSAGE_CHILDREN)  # Of what has ended and was reaped.
        usage = {"user_us": int(used.ru_utime * 1e6), "system_us": int(used.ru_stime * 1e6), "peak_memory": used.ru_maxrss << 10}
        say({"done": {"killed": killed, "left": names, "left_total": len(left)}, "usage": usage})

    me, killed, hard, told = os.getpid(), 0, None, False
    while True:
        wait = None if hard is None else max(0, hard - time.monotonic())
        ready, _, _ = select.select([control, wake], [], [], wait)
        if wake in ready:
            os.read(wake, 4096)
            reap()
        if control in ready:
            order = orders.readline().split()
            if not order or order[0] == b"kill":  # No order: the provider is gone, or done with us.
                hard = 0
            elif order[0] == b"stop":
                hard = time.monotonic() + int(order[1]) / 1000
                signal_all(descendants(me), signal.SIGTERM)
            elif order[0] == b"leave":
                done(descendants(me))
                told = True
        if hard is not None and (time.monotonic() >= hard or not descendants(me)):
            killed = kill_all(me, reap)
            reap()
            break
        if told and not descendants(me):
            return
    if not told:
        done({})


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        kill_all(os.getpid(), lambda: None)  # Nobody is left to tell.

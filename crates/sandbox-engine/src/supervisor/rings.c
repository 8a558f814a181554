/* A hostile program for `rings`: rings of processes of which each makes the next one, leaves its session and ends, so
 * that a list of them is old before it is complete. They share their memory, so that nothing is as fast to make.
 *
 * With one argument: that many processes that do nothing, for a table that takes long to read.
 *
 * Otherwise: how many rings; how many successors each process tries to have; the user to become, where root starts it;
 * whether the first process `stays` or `leaves`. Never more than 60 processes of that user. */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#define STACKS 4096
#define STACK_BYTES 2048

static char stacks[STACKS][STACK_BYTES] __attribute__((aligned(64)));
static unsigned next_stack;
static int successors;

static int link_of_a_ring(void *unused)
{
	int made = 0;
	syscall(SYS_setsid);
	while (!made)
		for (int i = 0; i < successors; i++) {
			/* Whoever had it before this many were made has ended. */
			unsigned stack = __sync_fetch_and_add(&next_stack, 1) % STACKS;
			made += clone(link_of_a_ring, stacks[stack] + STACK_BYTES, CLONE_VM | SIGCHLD, unused) > 0;
		}
	syscall(SYS_exit_group, 0);
	return 0;
}

static int idle(void *unused __attribute__((unused)))
{
	for (;;)
		syscall(SYS_ppoll, NULL, 0, NULL, NULL);
}

int main(int count, char **words)
{
	for (int more = count == 2 ? atoi(words[1]) : 0; more > 0; more--)
		if (clone(idle, stacks[more % STACKS] + STACK_BYTES, CLONE_VM | SIGCHLD, NULL) < 0)
			return 4;
	if (count == 2)
		idle(NULL);
	if (count != 5)
		return 2;
	struct rlimit most = { 60, 60 };
	uid_t user = atoi(words[3]);
	signal(SIGTERM, SIG_IGN);
	if (setrlimit(RLIMIT_NPROC, &most) || (geteuid() == 0 && setresuid(user, user, user)))
		return 3;
	successors = atoi(words[2]);
	for (int ring = 0; ring < atoi(words[1]); ring++)
		if (syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) == 0)
			link_of_a_ring(NULL);
	while (strcmp(words[4], "stays") == 0)
		pause();
	return 0;
}

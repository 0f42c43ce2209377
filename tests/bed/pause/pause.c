/*
 * The process that holds a pod's namespaces open: it sleeps, reaps the orphans of a pod that shares
 * its PID namespace, and ends when it is told to.
 */
#include <signal.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

static void end(int number)
{
	(void)number;
	_exit(0);
}

static void reap(int number)
{
	(void)number;
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
}

int main(void)
{
	/* Process 1 of a namespace ignores each signal for which it has no handler. */
	struct sigaction ending = {.sa_handler = end};
	struct sigaction reaping = {.sa_handler = reap, .sa_flags = SA_NOCLDSTOP | SA_RESTART};

	sigaction(SIGINT, &ending, NULL);
	sigaction(SIGTERM, &ending, NULL);
	sigaction(SIGCHLD, &reaping, NULL);
	for (;;)
		pause();
}

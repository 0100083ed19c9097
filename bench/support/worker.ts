/**
 * Processes of a benchmark: load generators and reference servers run in their own, so that the two
 * sides of a measurement never share a thread. A worker file calls {@link answerTasks}; the
 * benchmark starts it with {@link startWorker} and asks it for one thing after the other.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

interface Task {
  readonly id: number;
  readonly task: unknown;
}

type Answer =
  | { readonly id: number; readonly outcome: unknown }
  | { readonly id: number; readonly error: string };

export interface Worker<Input, Outcome> {
  readonly pid: number;
  /** Has the worker do something. Rejects when it fails or ends. */
  ask(task: Input): Promise<Outcome>;
  stop(): Promise<void>;
}

/**
 * In the worker: takes tasks until the benchmark lets go.
 *
 * @param work what a task is answered with
 */
export function answerTasks<Input, Outcome>(work: (task: Input) => Promise<Outcome>): void {
  process.on('message', ({ id, task }: Task) => {
    // What the benchmark sends is what its types say: both sides are of one repository.
    work(task as Input).then(
      (outcome) => process.send?.({ id, outcome }),
      (error: unknown) => process.send?.({ id, error: describeError(error) }),
    );
  });
  process.once('disconnect', () => process.exit(0));
}

function describeError(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

export interface WorkerOptions {
  /** Arguments of Node itself, such as `--expose-gc`. */
  readonly nodeArgs?: readonly string[];
}

/**
 * Starts a worker.
 *
 * @param file name of a file of this folder
 */
export function startWorker<Input, Outcome>(
  file: string,
  { nodeArgs = [] }: WorkerOptions = {},
): Worker<Input, Outcome> {
  const path = fileURLToPath(new URL(file, import.meta.url));
  const child = fork(path, {
    execArgv: [...nodeArgs],
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const pending = new Map<number, PromiseWithResolvers<Outcome>>();
  let tasks = 0;
  child.on('message', (answer: Answer) => {
    const waiting = pending.get(answer.id);
    pending.delete(answer.id);
    if ('error' in answer) waiting?.reject(new Error(`${file}: ${answer.error}`));
    else waiting?.resolve(answer.outcome as Outcome);
  });
  child.once('exit', (code, signal) => {
    for (const { reject } of pending.values())
      reject(new Error(`${file} ended (${code ?? signal})`));
    pending.clear();
  });
  return {
    pid: pidOf(child),
    ask(task) {
      const waiting = Promise.withResolvers<Outcome>();
      const id = tasks++;
      pending.set(id, waiting);
      child.send({ id, task });
      return waiting.promise;
    },
    stop: () => endProcess(child),
  };
}

export function pidOf(child: ChildProcess): number {
  if (child.pid === undefined) throw new Error('the process did not start');
  return child.pid;
}

/** Ends a process of ours with SIGTERM, after 15 seconds with SIGKILL. */
export async function endProcess(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, 'exit');
  child.kill('SIGTERM');
  const late = setTimeout(() => child.kill('SIGKILL'), 15_000);
  await gone;
  clearTimeout(late);
}

/** Commands of `postroom`, run one after the other in a process beside the test: see `command-loop.ts`. */
import { type ChildProcess, fork } from 'node:child_process';
import { after } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { CommandCall, CommandEnd } from './command-loop.ts';
import { bareEnvironment, ROOT } from './process.ts';

let loop: ChildProcess | undefined;
after(() => loop?.disconnect());

/** Runs a command in the process of those before it, in a folder without `.env`. */
export async function runHere(
  args: readonly string[],
  environment: Readonly<Record<string, string>>,
): Promise<CommandEnd> {
  loop ??= fork(fileURLToPath(new URL('command-loop.ts', import.meta.url)), {
    cwd: ROOT,
    env: bareEnvironment(),
  });
  const runner = loop;
  const { promise, resolve, reject } = Promise.withResolvers<CommandEnd>();
  const fail = () => {
    loop = undefined;
    reject(new Error(`the process of the commands ended before ${args.join(' ')}`));
  };
  runner.once('exit', fail).once('message', (end: CommandEnd) => resolve(end));
  runner.send({ args, environment } satisfies CommandCall);
  return await promise.finally(() => runner.off('exit', fail));
}

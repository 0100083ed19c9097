/** Commands of `postroom`, run one after the other in a process beside the test: see `command-loop.ts`. */
import assert from 'node:assert/strict';
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
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
  loop.send({ args, environment } satisfies CommandCall);
  const [end]: CommandEnd[] = await once(loop, 'message');
  return end ?? assert.fail();
}

/**
 * A process that runs commands of `postroom` one after the other, each as `src/postroom.js` runs it: to load what they
 * need takes longer than most of them. It answers each message that has a command with its exit code and output.
 */
import { env, exit } from 'node:process';

export interface CommandCall {
  readonly args: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
}

export interface CommandEnd {
  readonly code: number;
  readonly output: string;
}

let output = '';
for (const stream of [process.stdout, process.stderr]) {
  stream.write = (chunk: string | Uint8Array) => {
    output += String(chunk);
    return true;
  };
}
const program = new URL('../../src/postroom.js', import.meta.url);
let calls = 0;

async function runCommand({ args, environment }: CommandCall): Promise<void> {
  process.argv.splice(2, Number.POSITIVE_INFINITY, ...args);
  for (const name of Object.keys(env)) delete env[name];
  Object.assign(env, environment);
  [output, process.exitCode] = ['', 0];
  // A module runs once for each URL.
  await import(`${program}?${calls++}`);
  process.send?.({ code: process.exitCode, output } satisfies CommandEnd);
}

process.on('message', (call: CommandCall) => void runCommand(call));
process.on('disconnect', () => exit());

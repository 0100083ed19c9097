/**
 * A process of tests: `run-files.ts FILE...` does what `node --test --test-isolation=none` does, but for the
 * promises. The runner would hear of each that the service makes, and of its end, to know whose test has left an
 * error that nothing handles: that took a tenth to a quarter of the processor time. Such an error fails the process, with
 * its stack and without the name of its test.
 *
 * For the same reason it does not know what is declared after an `await` in a suite, nor a hook there in a test:
 * setups stand before their suite, and tests have `t.after` and `atEnd`.
 */
import hooks from 'node:async_hooks';
import { flushCompileCache } from 'node:module';
import { compose } from 'node:stream';
import { inspect } from 'node:util';
import fileTimes from './file-times.ts';

const { createHook } = hooks;
// The runner takes it from there when it is loaded.
Object.assign(hooks, {
  createHook: (callbacks: hooks.HookCallbacks) =>
    createHook({ ...callbacks, trackPromises: false }),
});
const { run } = await import('node:test');
const { spec: Spec } = await import('node:test/reporters');
for (const event of ['unhandledRejection', 'uncaughtException'] as const) {
  process.on(event, (error: unknown) => process.stderr.write(`${event}: ${inspect(error)}\n`));
}
// Nobody reads what it says any more: to say that would fail as well, again and again.
for (const out of [process.stdout, process.stderr]) out.on('error', () => process.exit(1));
const events = run({ files: process.argv.slice(2), isolation: 'none' });
let isOver = false;
events.on('test:summary', ({ success }) => {
  isOver = true;
  if (!success) process.exitCode = 1;
});
// A test ends before that, so that the tests are over then. Without it, what they left open keeps the process.
const watch = setTimeout(() => {
  isOver = true;
  process.stderr.write(`what tests left open: ${process.getActiveResourcesInfo().join(', ')}\n`);
  process.exit(1);
}, 2 * readTimeout()).unref();
events.on('test:complete', () => watch.refresh());
// Only this stack says which test did that.
process.on('exit', () => {
  if (!isOver) process.stderr.write(`${new Error('the process ended before its tests').stack}\n`);
});
// Where nothing is compiled yet, others that start meanwhile need not compile it as well: by itself Node keeps it at the end.
events.on('test:pass', ({ nesting }) => {
  if (nesting === 0) flushCompileCache();
});
for (const reporter of [new Spec(), fileTimes]) compose(events, reporter).pipe(process.stdout);

function readTimeout(): number {
  const [, ms] = /--test-timeout=(\d+)/.exec(process.execArgv.join(' ')) ?? [];
  return Number(ms ?? 300_000);
}

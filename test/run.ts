/** `npm test`: the suites that need no server beside the service. `npm test -- src/servers/smtp` runs a part of them. */
import { globSync } from 'node:fs';
import { groupFiles, journeysTogether, runSuites } from './suites.ts';

const wanted = process.argv.slice(2);
const files = globSync([
  'src/**/*.test.ts',
  'test/journeys/**/*.test.ts',
  'packages/*/test/**/*.test.ts',
])
  .filter((file) => wanted.length === 0 || wanted.some((part) => file.startsWith(part)))
  .toSorted();
if (files.length === 0) {
  console.error(`No test file begins with ${wanted.join(' or ')}.`);
  process.exit(1);
}
const groups = groupFiles(files, {
  together: journeysTogether,
  longest: [...Object.keys(journeysTogether), 'test/journeys/hostile-receivers.test.ts'],
});
// Four at a time, also on two cores: they wait for timers and for each other.
const passed = await runSuites({ groups, processes: 4, timeoutMs: 300_000 });
process.exitCode = passed ? 0 : 1;

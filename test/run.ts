/** `npm test`: the suites that need no server beside the service. `npm test -- src/servers/smtp` runs a part of them. */
import { existsSync, globSync, mkdtempSync, rmSync, statfsSync } from 'node:fs';
import { groupFiles, journeysTogether, runSuites } from './suites.ts';

/** A file system in memory. */
const MEMORY = '/dev/shm';
/** Octets that have to be free in it, several times what a run takes. */
const ROOM = 4 * 2 ** 30;

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
  // Those of src wait half of their time: what runs beside them at the end would leave a core idle.
  longest: [
    ...Object.keys(journeysTogether),
    'test/journeys/hostile-receivers.test.ts',
    'src/mail',
    'src/servers',
    'src/mailboxes',
  ],
  folders: [
    ['src/tenants', 'src/run'],
    ['src/protocols', 'src/platform'],
  ],
});
// Four at a time, also on two cores: they wait for timers and for each other.
const environment = memoryFolder();
const passed = await runSuites({ groups, processes: 4, timeoutMs: 300_000, environment });
process.exitCode = passed ? 0 : 1;

/**
 * Where there is room, what tests write is in memory: the file system takes a tenth of their processor time, and a disk
 * that others use lets them wait as well. What has to be on the disk before something else happens is shown by
 * what is asked of it, not by waiting for it (`power-cut.test.ts`).
 */
function memoryFolder(): NodeJS.ProcessEnv {
  if (!existsSync(MEMORY)) return {};
  const { bavail, bsize } = statfsSync(MEMORY);
  if (bavail * bsize < ROOM) return {};
  const folder = mkdtempSync(`${MEMORY}/postroom-`);
  process.once('exit', () => rmSync(folder, { recursive: true, force: true, maxRetries: 9 }));
  // Else a run that somebody breaks off would keep the memory.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));
  return { TMPDIR: folder };
}

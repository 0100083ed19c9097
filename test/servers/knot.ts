/** Knot DNS, an authoritative server, on a free loopback port, with zones the test rewrites. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { freePort } from '../support/free-port.ts';

const run = promisify(execFile);

export interface KnotServer {
  /** As DNS_SERVERS has it. */
  readonly address: string;
  /** Puts these lines in place of all records of a zone, which is there at the start already. */
  write(zone: string, lines: readonly string[]): Promise<void>;
  stop(): Promise<void>;
}

function configure(directory: string, port: number, zones: readonly string[]): string {
  return [
    'server:',
    `  listen: 127.0.0.1@${port}`,
    `  rundir: "${directory}"`,
    '  udp-workers: 1',
    '  tcp-workers: 1',
    '  background-workers: 1',
    'control:',
    `  listen: "${directory}/knot.sock"`,
    'log:',
    '  - target: stderr',
    '    any: warning',
    'database:',
    `  storage: "${directory}"`,
    'template:',
    '  - id: default',
    `    storage: "${directory}"`,
    '    file: "%s.zone"',
    // The file is ours; nothing is written back into it.
    '    zonefile-sync: -1',
    '    journal-content: none',
    'zone:',
    ...zones.map((zone) => `  - domain: ${zone}`),
    '',
  ].join('\n');
}

/** Starts a server with empty zones. */
export async function startKnot(zones: readonly string[]): Promise<KnotServer> {
  const directory = await mkdtemp(join(tmpdir(), 'postroom-knot-'));
  const port = await freePort();
  let serial = 0;
  const save = (zone: string, lines: readonly string[]) => {
    serial++;
    const soa = `${zone}. 3600 SOA ns.${zone}. hostmaster.${zone}. ${serial} 3600 600 86400 60`;
    const text = [soa, `${zone}. 3600 NS ns.${zone}.`, `ns.${zone}. 3600 A 127.0.0.1`, ...lines];
    return writeFile(join(directory, `${zone}.zone`), `${text.join('\n')}\n`);
  };
  for (const zone of zones) await save(zone, []);
  const configuration = join(directory, 'knot.conf');
  await writeFile(configuration, configure(directory, port, zones));
  const server = spawn('/usr/sbin/knotd', ['-c', configuration], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let said = '';
  server.stderr.setEncoding('utf8').on('data', (text: string) => {
    if (said.length < 100_000) said += text;
  });
  const control = (...words: string[]) =>
    run('/usr/sbin/knotc', ['-s', join(directory, 'knot.sock'), '-b', ...words]);
  for (;;) {
    if (server.exitCode !== null) throw new Error(`knotd did not start:\n${said}`);
    const up = await control('status').then(
      () => true,
      () => false,
    );
    if (up) break;
  }
  return {
    address: `127.0.0.1:${port}`,
    async write(zone, lines) {
      await save(zone, lines);
      await control('zone-reload', zone);
    },
    async stop() {
      if (server.exitCode === null) {
        const exited = once(server, 'exit');
        server.kill('SIGTERM');
        await exited;
      }
      await rm(directory, { recursive: true, force: true });
    },
  };
}

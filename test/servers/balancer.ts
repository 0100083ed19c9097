/** HAProxy with the configuration of deploy/several-nodes/, in front of nodes of a test. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { freePort } from '../support/free-port.ts';

const CONFIGURATION = new URL('../../deploy/several-nodes/haproxy.cfg', import.meta.url);
const STARTS_WITHIN_MS = 30_000;

export interface NodePorts {
  readonly http: number;
  readonly smtp: number;
}

export interface Balancer extends NodePorts {
  stop(): Promise<void>;
}

/** Waits until it sends requests on. Each request, and each SMTP connection, goes to the next node. */
export async function startBalancer(nodes: readonly NodePorts[]): Promise<Balancer> {
  const ports = { http: await freePort(), smtp: await freePort() };
  const folder = await mkdtemp(join(tmpdir(), 'postroom-balancer-'));
  const file = join(folder, 'haproxy.cfg');
  await writeFile(file, configure(await readFile(CONFIGURATION, 'utf8'), ports, nodes));
  const child = spawn('/usr/sbin/haproxy', ['-db', '-f', file], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const exited = once(child, 'exit');
  const stop = async () => {
    child.kill('SIGKILL');
    await exited;
    await rm(folder, { recursive: true, force: true });
  };
  try {
    await untilReady(`http://127.0.0.1:${ports.http}/readyz`, child);
  } catch (error) {
    await stop();
    throw error;
  }
  return { ...ports, stop };
}

/** The configuration with ports of ours in place of two nodes of a compose file. */
function configure(text: string, ports: NodePorts, nodes: readonly NodePorts[]): string {
  const servers = (address: (node: NodePorts) => string) =>
    nodes.map((node, at) => `    server node${at + 1} 127.0.0.1:${address(node)}`).join('\n');
  const changes: [string, string][] = [
    // Fewer descriptors, and more than a flood holds.
    ['maxconn 20000', 'maxconn 1000'],
    ['bind :8080', `bind 127.0.0.1:${ports.http}`],
    ['bind :2525', `bind 127.0.0.1:${ports.smtp}`],
    [
      '    server node1 node1:8080\n    server node2 node2:8080',
      servers(({ http }) => String(http)),
    ],
    [
      '    server node1 node1:2525\n    server node2 node2:2525',
      // Each says by HTTP whether it is ready.
      servers(({ http, smtp }) => `${smtp} port ${http}`),
    ],
  ];
  return changes.reduce((done, [from, to]) => {
    if (!done.includes(from)) throw new Error(`haproxy.cfg does not have "${from}"`);
    return done.replace(from, to);
  }, text);
}

async function untilReady(url: string, child: ChildProcess): Promise<void> {
  const end = performance.now() + STARTS_WITHIN_MS;
  const isReady = () =>
    fetch(url).then(
      ({ ok }) => ok,
      () => false,
    );
  while (!(await isReady())) {
    if (child.exitCode !== null) throw new Error(`HAProxy ended with ${child.exitCode}`);
    if (performance.now() > end) throw new Error('HAProxy sends no requests on');
    await pause(50);
  }
}

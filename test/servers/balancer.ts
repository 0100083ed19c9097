/** HAProxy with the configuration of deploy/several-nodes/, in front of nodes of a test. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';
import { freePort } from '../support/free-port.ts';

const CONFIGURATION = new URL('../../deploy/several-nodes/haproxy.cfg', import.meta.url);
const STARTS_WITHIN_MS = 30_000;

export interface NodePorts {
  readonly http: number;
  readonly smtp: number;
}

export interface Balancer extends NodePorts {
  /** Waits until it has found every node ready, for HTTP as for SMTP. */
  untilAllUp(): Promise<void>;
  stop(): Promise<void>;
}

/** Waits until it sends requests on. Each request, and each SMTP connection, goes to the next node. */
export async function startBalancer(nodes: readonly NodePorts[]): Promise<Balancer> {
  const ports = { http: await freePort(), smtp: await freePort() };
  const folder = await mkdtemp(join(tmpdir(), 'postroom-balancer-'));
  const file = join(folder, 'haproxy.cfg');
  const control = join(folder, 'control');
  const own = configure(await readFile(CONFIGURATION, 'utf8'), { ports, nodes, control });
  await writeFile(file, own);
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
  return { ...ports, untilAllUp: () => untilAllUp(control), stop };
}

/** Waits until HAProxy has found every server ready. @param control path of its socket */
export async function untilAllUp(control: string): Promise<void> {
  const end = performance.now() + STARTS_WITHIN_MS;
  for (let down = ['all']; down.length > 0; down = await serversThatAreNotUp(control)) {
    if (performance.now() > end) throw new Error(`HAProxy does not take in ${down.join()}`);
    await pause(50);
  }
}

/** Its servers by name that are not `UP`, of `show stat` (HAProxy Management Guide, section 9.1). */
async function serversThatAreNotUp(control: string): Promise<string[]> {
  const socket = connect(control);
  socket.end('show stat\n');
  const rows = (await text(socket))
    .trim()
    .split('\n')
    .map((line) => line.split(','));
  const servers = rows.filter(([, name]) => name?.startsWith('node'));
  return servers.filter((row) => row[17] !== 'UP').map(([backend, name]) => `${backend}/${name}`);
}

interface OwnParts {
  readonly ports: NodePorts;
  readonly nodes: readonly NodePorts[];
  /** Path of the socket that answers what it knows. */
  readonly control: string;
}

/** The configuration with ports of ours in place of two nodes of a compose file. */
function configure(original: string, { ports, nodes, control }: OwnParts): string {
  const servers = (address: (node: NodePorts) => string) =>
    nodes.map((node, at) => `    server node${at + 1} 127.0.0.1:${address(node)}`).join('\n');
  const changes: [string, string][] = [
    // Fewer descriptors, and more than a flood holds.
    ['maxconn 20000', `maxconn 1000\n    stats socket ${control}`],
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
  }, original);
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

/** Downloading an attachment of 5 MB: bytes per second against a bare file stream, and memory. */
import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  atLeast,
  type Benchmark,
  type Figure,
  interleave,
  median,
  shorten,
} from './support/figures.ts';
import { makeFolder, removeFolder } from './support/folders.ts';
import { type Played, writeRequest } from './support/http-client.ts';
import type { HttpLoad } from './support/load-http.ts';
import { withMailboxes } from './support/mailboxes.ts';
import { ATTACHMENT_PART } from './support/messages.ts';
import type { FileToServe } from './support/reference-file-stream.ts';
import { makeToken, residentMemory } from './support/service.ts';
import { startWorker } from './support/worker.ts';

const TARGET = 0.6;
const SIZE = 5 * 1024 * 1024;
const CONNECTIONS = 8;
const DOWNLOADS = 100;
const GROWTH_MAX_MB = 20;
const MB = 1024 * 1024;

/** How far the service's resident memory rises while `work` goes on, in MB. */
async function growthDuring(pid: number, work: Promise<unknown>): Promise<number> {
  const before = residentMemory(pid);
  let most = before;
  const sampling = setInterval(() => {
    most = Math.max(most, residentMemory(pid));
  }, 10);
  try {
    await work;
  } finally {
    clearInterval(sampling);
  }
  return (Math.max(most, residentMemory(pid)) - before) / MB;
}

/** The median over several turns: the first growth of a process, about the same for both, is past. */
function growthFigure(ours: readonly number[], stream: readonly number[]): Figure {
  const growth = median(ours);
  return {
    name: `memory growth, ${DOWNLOADS} downloads at ${CONNECTIONS} connections`,
    ours: `${shorten(growth)} MB`,
    reference: `${shorten(median(stream))} MB`,
    ratio: '-',
    target: `< ${GROWTH_MAX_MB} MB`,
    met: growth < GROWTH_MAX_MB,
  };
}

export const attachment: Benchmark = {
  name: 'attachment',
  run: (options) =>
    withMailboxes(options, async (service, mailboxes) => {
      const folder = makeFolder();
      const path = join(folder, 'attachment');
      writeFileSync(path, randomBytes(SIZE));
      const stream = startWorker<FileToServe, number>('reference-file-stream.ts');
      const generator = startWorker<HttpLoad, Played>('load-http.ts');
      try {
        const token = await makeToken(service.port, mailboxes.attachment);
        const ours = writeRequest(
          'GET',
          `/mail/attachment?mailbox=INBOX&uid=1&part=${ATTACHMENT_PART}`,
          { authorization: `Bearer ${token}` },
        );
        const download = (port: number, request: string, count: number) =>
          generator.ask({ port, connections: CONNECTIONS, requests: [request], count });
        const streamPort = await stream.ask({ path, size: SIZE });
        const plain = writeRequest('GET', '/');
        const growthOf = (port: number, pid: number, request: string) =>
          growthDuring(pid, download(port, request, DOWNLOADS));
        const growthInTurn = {
          stream: () => growthOf(streamPort, stream.pid, plain),
          ours: () => growthOf(service.port, service.pid, ours),
        };
        const cold = await interleave(1, growthInTurn);
        const growth = await interleave(3, growthInTurn);
        const rate = async (port: number, request: string) => {
          const { bytes, seconds } = await download(port, request, DOWNLOADS);
          if (bytes !== DOWNLOADS * SIZE) throw new Error('a download was not whole');
          return bytes / MB / seconds;
        };
        const rates = await interleave(7, {
          stream: () => rate(streamPort, plain),
          ours: () => rate(service.port, ours),
        });
        const first = `${shorten(median(cold.ours))} MB, a bare file stream's ${shorten(median(cold.stream))} MB`;
        console.log(`(memory grows in the first ${DOWNLOADS} downloads by ${first})`);
        return [
          atLeast('attachment of 5 MB', 'MB/s', rates.ours, rates.stream, TARGET),
          growthFigure(growth.ours, growth.stream),
        ];
      } finally {
        await Promise.all([stream.stop(), generator.stop()]);
        removeFolder(folder);
      }
    }),
};

/** A real S3 server: Ceph's radosgw, on loopback, with its objects in memory (`start-s3.sh`). */
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseEnv, promisify } from 'node:util';
import { CreateBucketCommand, S3Client } from '@aws-sdk/client-s3';
import { atEnd } from '../support/at-end.ts';
import { freePort } from '../support/free-port.ts';
import { untilRefused } from './mail-server.ts';

const run = promisify(execFile);
const SCRIPT = fileURLToPath(new URL('start-s3.sh', import.meta.url));
/** It takes its port and so many after it. */
const MORE_PORTS = 9;

/** What {@link sharedS3} returns. */
let shared = process.env.TEST_S3_URL ? Promise.resolve(process.env.TEST_S3_URL) : undefined;
let buckets = 0;

export interface S3Server {
  readonly port: number;
  /** What opens its bucket. */
  readonly bucket: {
    readonly endpoint: string;
    readonly bucket: string;
    readonly region: string;
    readonly accessKeyId: string;
    readonly secretAccessKey: string;
  };
  /** Ends the process that speaks S3, as a crash would, and waits for that. What it has said to be kept is kept. */
  kill(): Promise<void>;
  /** Starts that again, and waits until it answers. */
  restart(): Promise<void>;
  stop(): Promise<void>;
}

export async function startS3(): Promise<S3Server> {
  const folder = await mkdtemp(join(tmpdir(), 'postroom-s3-'));
  const port = await freePort(MORE_PORTS);
  const env = { ...process.env, S3_STORE: 'memstore' };
  const { stdout } = await run(SCRIPT, [folder, String(port)], { env });
  const settings = parseEnv(stdout);
  return {
    port,
    bucket: {
      endpoint: settings.S3_ENDPOINT ?? '',
      bucket: settings.S3_BUCKET ?? '',
      region: settings.S3_REGION ?? '',
      accessKeyId: settings.S3_ACCESS_KEY ?? '',
      secretAccessKey: settings.S3_SECRET_KEY ?? '',
    },
    async kill() {
      process.kill(Number(await readFile(join(folder, 'run/rgw.pid'), 'utf8')), 'SIGKILL');
      await untilRefused(port);
    },
    async restart() {
      await run(SCRIPT, ['gateway', folder]);
    },
    async stop() {
      await run(SCRIPT, ['stop', folder]);
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** The value of `S3_URL` for its bucket. */
export function bucketUrl({ bucket }: Pick<S3Server, 'bucket'>): string {
  const { accessKeyId, secretAccessKey, endpoint, region } = bucket;
  return `${endpoint.replace('//', `//${accessKeyId}:${secretAccessKey}@`)}/${bucket.bucket}?region=${region}`;
}

/**
 * The server for nodes of any test, as the value of `S3_URL` for a bucket of it: the one that `TEST_S3_URL` names, or
 * else one that ends with the tests of this process.
 */
export function sharedS3(): Promise<string> {
  shared ??= startS3().then((server) => {
    atEnd(() => server.stop());
    return bucketUrl(server);
  });
  return shared;
}

/** Makes a bucket on the shared server. @returns the value of `S3_URL` */
export async function makeBucket(): Promise<string> {
  const url = new URL(await sharedS3());
  const name = `nodes-${process.pid}-${buckets++}`;
  const client = new S3Client({
    endpoint: url.origin,
    region: url.searchParams.get('region') ?? '',
    forcePathStyle: true,
    credentials: { accessKeyId: url.username, secretAccessKey: url.password },
  });
  await client.send(new CreateBucketCommand({ Bucket: name }));
  client.destroy();
  url.pathname = name;
  return url.href;
}

/** Starts a listener on a free port with a recording delivery, and ends it with the test. */
import { readFileSync } from 'node:fs';
import type { TestContext } from 'node:test';
import { type Logger, pino } from 'pino';
import { isLoopback } from '../../../src/platform/net/net.ts';
import {
  type SmtpLimits,
  type SmtpListener,
  type SmtpOptions,
  startSmtp,
} from '../../../src/servers/smtp/smtp.ts';
import { CERTIFICATE } from '../certificate.ts';
import { RecordingDelivery, submissionTo } from './recording-delivery.ts';

export interface TestListener {
  readonly listener: SmtpListener;
  readonly port: number;
  readonly delivery: RecordingDelivery;
  /** What was logged, one object for each line. */
  readonly log: Record<string, unknown>[];
}

interface TestOptions {
  /** Whether clients have to log in: see {@link submissionTo}. */
  readonly submission?: boolean;
}

const tls = { cert: readFileSync(CERTIFICATE.TLS_CERT), key: readFileSync(CERTIFICATE.TLS_KEY) };

export async function startListener(
  context: TestContext,
  { submission = false, ...options }: Partial<SmtpOptions & SmtpLimits> & TestOptions = {},
): Promise<TestListener> {
  const delivery = new RecordingDelivery();
  const log: Record<string, unknown>[] = [];
  const listener = await startSmtp({
    delivery: submission ? submissionTo(delivery) : delivery,
    hostname: 'mail.test',
    host: '127.0.0.1',
    port: 0,
    protocol: 'smtp',
    tls,
    maxMessageBytes: 1_000_000,
    maxPerIp: 100,
    maxConnections: 2_000,
    isTrusted: isLoopback,
    isBalancer: () => false,
    logger: recordingLogger(log),
    ...options,
    limits: options,
  });
  context.after(() => listener.close(0));
  return { listener, port: listener.address.port, delivery, log };
}

function recordingLogger(log: Record<string, unknown>[]): Logger {
  return pino({ level: 'debug' }, { write: (line: string) => log.push(JSON.parse(line)) });
}

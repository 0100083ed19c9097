import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { pino } from 'pino';
import { openTestDatabase } from '../../test/support/databases.ts';
import { startLmtpServer } from '../../test/support/lmtp-server.ts';
import { Bodies } from '../bodies/bodies.ts';
import { ConfigError, readConfig } from '../config/config.ts';
import { stageMessage } from '../mailstore/mailstore.ts';
import { Queue } from '../queue/queue.ts';
import { buildInboundDelivery } from './inbound-delivery.ts';

const IMAP = 'imap://master:secret@127.0.0.1:9';
const user = { accountId: 1, address: 'ann@acme.test' };

async function build(
  environment: Record<string, string>,
  imap: Parameters<typeof buildInboundDelivery>[0]['imap'] = {},
) {
  const { database, directory } = await openTestDatabase('sqlite');
  const config = readConfig({ ...environment, MAIL_HOSTNAME: 'mx.test' }, directory);
  const logger = pino({ level: 'silent' });
  const bodies = new Bodies({ database, directory: join(directory, 'bodies') });
  const queue = new Queue({ database, log: logger });
  const stage = () =>
    stageMessage(
      bodies,
      (async function* () {
        yield Buffer.from('Subject: s\r\n\r\nHello.\r\n');
      })(),
    );
  const inbound = buildInboundDelivery({ config, database, bodies, queue, logger, imap });
  return { inbound, stage };
}

test('the embedded store needs nothing of it', async () => {
  assert.equal((await build({})).inbound, undefined);
});

test('LMTP_URL says where mail goes', async () => {
  const { port, kept } = await startLmtpServer();
  const { inbound, stage } = await build({
    MAILSTORE_URL: IMAP,
    LMTP_URL: `lmtp://127.0.0.1:${port}`,
  });
  await inbound?.append(await stage(), [{ user, mailbox: 'INBOX' }]);
  inbound?.close();
  assert.deepEqual(
    kept.map(({ to }) => to),
    [user.address],
  );
});

test('without LMTP_URL it goes by IMAP, or the start is refused', async () => {
  const appended: string[] = [];
  const appendByImap = async (_user: object, mailbox: string) => void appended.push(mailbox);
  const { inbound, stage } = await build({ MAILSTORE_URL: IMAP }, { appendByImap });
  await inbound?.append(await stage(), [{ user, mailbox: 'INBOX' }]);
  assert.deepEqual(appended, ['INBOX']);
  await assert.rejects(build({ MAILSTORE_URL: IMAP }), ConfigError);
});

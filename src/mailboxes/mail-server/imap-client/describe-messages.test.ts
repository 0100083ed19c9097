/** What a page says of messages whose structure the server guessed. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startFakeServer } from '../../../../test/support/imap-client/fake-server.ts';
import { openImapStore } from '../../../../test/support/imap-client/open-store.ts';

const nothing = '(("text" "plain" NIL NIL NIL "7bit" 0 0) "alternative")';
const file = (name: string, size: number) =>
  `("application" "pdf" ("name" "${name}") NIL NIL "base64" ${size})`;

test('attachments behind the first piece are told, also where the server made nothing of a part', async () => {
  const server = await startFakeServer();
  const part = (name: string, size: number) =>
    `--x\r\nContent-Type: application/pdf; name=${name}\r\nContent-Transfer-Encoding: base64\r\n\r\n${'A'.repeat(size)}\r\n`;
  const empty =
    '--x\r\nContent-Type: multipart/alternative; boundary=y\r\n\r\n--y\r\n\r\n\r\n--y--\r\n';
  const head = 'Content-Type: multipart/mixed; boundary=x\r\n\r\n';
  server.add(`${head}${empty}${part('a.pdf', 600_000)}${part('b.pdf', 40)}--x--\r\n`);
  server.fault = ({ args }) => {
    if (!args.includes('BODYSTRUCTURE')) return undefined;
    const structure = `(${nothing}${file('a.pdf', 600_000)}${file('b.pdf', 40)} "mixed")`;
    return { send: `* 1 FETCH (UID 1 MODSEQ (1) BODYSTRUCTURE ${structure})\r\nTAG OK done\r\n` };
  };
  const { store, user } = await openImapStore(server.port);
  const { changes } = await store.sync(user, { mailbox: 'INBOX', fields: ['bodyStructure'] });
  const names = changes.added[0]?.bodyStructure?.childNodes?.map(
    ({ parameters }) => parameters?.name,
  );
  assert.deepEqual(names, [undefined, 'a.pdf', 'b.pdf']);
});

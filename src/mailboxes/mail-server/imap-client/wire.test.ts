/** Commands on a connection, and what comes of their answers. */
import assert from 'node:assert/strict';
import { after, suite, test } from 'node:test';
import {
  type FakeServer,
  startFakeServer,
} from '../../../../test/support/imap-client/fake-server.ts';
import { Connection } from './connection.ts';
import type { ImapResponse } from './responses.ts';
import { atom, bytesOf, quoted, textOf, valuesOf } from './wire.ts';

const opened: Connection[] = [];
after(() => {
  for (const connection of opened.splice(0)) connection.destroy();
});

async function connect(): Promise<{ server: FakeServer; connection: Connection }> {
  const server = await startFakeServer();
  const connection = await Connection.open({
    server: { host: '127.0.0.1', port: server.port, tls: 'off', verifyCertificate: true },
    login: { user: 'ann', pass: server.password },
    timeoutMs: 60_000,
  });
  opened.push(connection);
  return { server, connection };
}

void suite('the command layer', () => {
  void test('passes untagged responses to the command that asked', async () => {
    const { server, connection } = await connect();
    const fetched = '* 3 FETCH (UID 9 BODY[]<0> {5}\r\nh\xe9\r\n) FLAGS (\\Seen "odd"))\r\n';
    server.fault = ({ name }) =>
      name === 'FETCH'
        ? { send: `${fetched}* 4 EXISTS\r\nTAG OK [COPYUID 1 2 3] ok\r\n` }
        : undefined;
    const seen: ImapResponse[] = [];
    const ok = await connection.command('FETCH', [atom('3'), [atom('UID')]], {
      FETCH: (response) => seen.push(response),
    });
    assert.ok(seen[0]);
    const items = valuesOf(seen[0].items[0]);
    assert.equal(textOf(items.get('UID')), '9');
    assert.deepEqual(bytesOf(items.get('BODY')), Buffer.from('h\xe9\r\n)', 'latin1'));
    assert.equal(ok.tag, server.commands.at(-1)?.tag);
  });

  void test('writes names so that no character ends the command', async () => {
    const { server, connection } = await connect();
    server.fault = ({ name }) => (name === 'STATUS' ? { send: 'TAG OK done\r\n' } : undefined);
    await connection.command('STATUS', [quoted('a"b\\c {3}'), [atom('UIDNEXT')]]);
    assert.equal(server.commands.at(-1)?.args, '"a\\"b\\\\c {3}" (UIDNEXT)');
  });

  void test('fails with what cannot be right between two commands, and does not wait', async () => {
    const { server, connection } = await connect();
    server.fault = () => ({ send: 'TAG OK done\r\n* 1 FETCH (BODY[] {99999999}\r\n' });
    await connection.command('NOOP');
    await assert.rejects(connection.command('NOOP'), { kind: 'garbled' });
    assert.equal(connection.isOpen, false);
  });

  void test('reports what the server sends between two commands', async () => {
    const { server, connection } = await connect();
    await connection.select('INBOX', 'EXAMINE');
    assert.equal(connection.selected?.news, false);
    server.fault = ({ name }) =>
      name === 'NOOP' ? { send: 'TAG OK done\r\n* 7 EXISTS\r\n* VANISHED 2:3\r\n' } : undefined;
    await connection.command('NOOP');
    server.fault = () => undefined;
    await connection.command('NOOP');
    assert.equal(connection.selected?.news, true);
    assert.equal(connection.selected?.exists, 5);
    assert.deepEqual(
      connection.selected?.gone.flatMap((uids) => [...uids.take()]),
      [2, 3],
    );
  });
});

/** Strict mail programs on a mailbox that HTTP and SMTP change, too: random lives of it. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import fc from 'fast-check';
import { onEachEngine } from '../support/databases.ts';
import { freePort } from '../support/free-port.ts';
import { StrictClient } from '../support/imap-model.ts';
import { commandsOf, type ImapStep, imapSteps, type Other } from '../support/imap-steps.ts';
import { startTestService, type TestAccount, type TestService } from '../support/service.ts';

/** For a long search by hand. */
const RUNS = Number(process.env.IMAP_MODEL_RUNS ?? '6');

onEachEngine('IMAP, HTTP and SMTP', (engine) => {
  let service: TestService;
  before(async () => {
    service = await startTestService(engine, { IMAP_PORT: String(await freePort()) });
  });

  async function truthOf(account: TestAccount) {
    return (await service.look(account)).get('INBOX') ?? new Map<number, readonly string[]>();
  }

  async function act(account: TestAccount, { how, pick, flag }: Other): Promise<void> {
    const mail = async (path: string, body: object) => {
      const uids = [...(await truthOf(account)).keys()];
      const uid = uids[pick % Math.max(1, uids.length)];
      if (uid === undefined) return;
      const set = { mailbox: 'INBOX', uids: [uid], ...body };
      const { status, body: answer } = await service.mail(account.token, 'POST', path, set);
      assert.equal(status, 200, JSON.stringify(answer));
    };
    if (how === 'smtp') {
      await service.send({
        from: 'bob@example.test',
        to: account.address,
        subject: 's',
        text: 't',
      });
    } else if (how === 'append') {
      const response = await fetch(`${service.url}/mail/append?mailbox=INBOX`, {
        method: 'POST',
        headers: { authorization: `Bearer ${account.token}`, 'content-type': 'message/rfc822' },
        body: 'Subject: http\r\n\r\nHi\r\n',
      });
      assert.equal(response.status, 201, await response.text());
    } else if (how === 'flag') await mail('/mail/flags', { add: [flag] });
    else if (how === 'unflag') await mail('/mail/flags', { remove: [flag] });
    else if (how === 'move') await mail('/mail/move', { to: 'Trash' });
    else await mail('/mail/delete', {});
  }

  async function live(steps: readonly ImapStep[]): Promise<void> {
    const account = await service.makeAccount();
    const login = `LOGIN ${account.address} "${account.password}"`;
    const recents = service.nodes.length > 1 ? undefined : new Map<number, StrictClient>();
    let connected = 0;
    const connect = (notes?: StrictClient['notes']) => {
      const { imap } = service.nodes[connected++ % service.nodes.length]?.addresses ?? {};
      return StrictClient.connect(imap?.port ?? 0, login, recents, notes);
    };
    const clients = [await connect(), await connect(), await connect()] as const;
    for (const [at, client] of clients.entries()) await client.select(at > 0);
    const all: StrictClient[] = [...clients];
    const of = (who: number) => all[who] ?? clients[0];
    for (const step of steps) {
      if (step.do === 'commands') {
        const client = of(step.who);
        await client.run(commandsOf(client, step.what), step.cuts);
      } else if (step.do === 'idle') {
        const client = of(step.who);
        const others = all.filter((one) => one !== client);
        await client.idle(async () => {
          await others[0]?.run(['UID STORE 1:* +FLAGS ($Idle)']);
          await act(account, { how: 'append', pick: step.pick, flag: '' });
        });
      } else if (step.do === 'reconnect') {
        const { notes } = of(step.who);
        of(step.who).close();
        const client = await connect(notes);
        all[step.who] = client;
        await client.resync(step.pick);
      } else if (step.do === 'reopen') {
        const flag = { how: 'flag', pick: step.pick, flag: '\\Flagged' } as const;
        await Promise.all([of(step.who).reopen(step.pick), act(account, flag)]);
      } else if (step.do === 'watch') await of(step.who).watch(step.pick);
      else if (step.do === 'other') {
        // Beside commands of two programs.
        const next = (step.beside + 1) % 3;
        await Promise.all([
          act(account, step.other),
          all[step.beside]?.run(['UID FETCH 1:* (FLAGS)', 'NOOP', 'UID MOVE 1:2 INBOX']),
          all[next]?.run(['UID STORE 1:* +FLAGS ($x)', 'UID COPY 3:4 INBOX', 'UID EXPUNGE 1:*']),
        ]);
      } else {
        const truth = await truthOf(account);
        for (const client of all) await client.check(truth);
      }
    }
    const truth = await truthOf(account);
    for (const client of all) await client.check(truth);
    for (const client of all) client.close();
  }

  test('are the same mailbox to programs that know only what they are told', async () => {
    await fc.assert(fc.asyncProperty(imapSteps, live), { numRuns: RUNS, endOnFailure: true });
  });
});

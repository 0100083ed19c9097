/** Mail programs of Debian on a mailbox of ours: mbsync with the settings of the guide, and Python's imaplib. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { promisify } from 'node:util';
import { readPage } from '../support/doc-pages.ts';
import { type ProgramBench, startForPrograms } from './mail-programs.ts';

const run = promisify(execFile);

let bench: ProgramBench;
before(async () => {
  bench = await startForPrograms();
});

test('mbsync keeps a folder in step, both ways, and then has nothing to do', async () => {
  const { service, folder, certificate, imapsPort } = bench;
  const account = await service.makeAccount();
  await bench.append(
    account,
    Array.from({ length: 60 }, (_, at) => `m${at}`),
  );
  const block = readPage('docs/guides/mail-programs.md').blocks.find(
    ({ label }) => label === 'mbsyncrc',
  );
  const settings = (block?.text ?? '')
    .replace('Host mail.example', `Host localhost\nCertificateFile ${certificate}`)
    .replace('Port 993', `Port ${imapsPort}`)
    .replace('User ada@acme.test', `User ${account.address}`)
    .replace('pass ada@acme.test', `echo ${account.password}`)
    .replaceAll('~/Mail', `${folder}/Mail`);
  await writeFile(join(folder, 'mbsyncrc'), settings);
  const inbox = join(folder, 'Mail', 'INBOX');
  await mkdir(join(folder, 'Mail'));
  const sync = async () => {
    const { stdout } = await run('mbsync', ['-V', '-a', '-c', join(folder, 'mbsyncrc')], {
      env: { ...process.env, HOME: folder },
      timeout: 60_000,
    });
    return stdout;
  };
  await sync();
  const [first = '', second = '', ...others] = (await readdir(join(inbox, 'new'))).sort();
  assert.equal(others.length, 58);
  // One is read and starred here, one removed here, one is new here; one is removed there.
  const name = first.replace(/:2,.*$/, '');
  await rename(join(inbox, 'new', first), join(inbox, 'cur', `${name}:2,FS`));
  await rm(join(inbox, 'new', second));
  await writeFile(join(folder, 'Mail', 'Drafts', 'new', '1.here'), 'Subject: here\n\nhere\n');
  await service.mail(account.token, 'POST', '/mail/delete', { mailbox: 'INBOX', uids: [60] });
  await sync();
  const seen = await service.look(account);
  assert.equal(seen.get('INBOX')?.size, 58);
  const changed = [...(seen.get('INBOX')?.values() ?? [])].filter((flags) => flags.length > 0);
  assert.deepEqual(changed, [['\\Flagged', '\\Seen']]);
  assert.equal(seen.get('Drafts')?.size, 1);
  assert.equal((await readdir(join(inbox, 'new'))).length, 57);
  await sync();
  assert.deepEqual(await service.look(account), seen);
});

const PROGRAM = `
import imaplib, ssl, sys
trusted = ssl.create_default_context(cafile=sys.argv[2])
box = imaplib.IMAP4_SSL("localhost", int(sys.argv[1]), ssl_context=trusted, timeout=30)
box.login(sys.argv[3], sys.argv[4])
box.select()
uids = ",".join(str(uid) for uid in range(1, 100001))
print(box.uid("FETCH", uids, "(UID)")[0], len(box.uid("SEARCH", "UNSEEN")[1][0].split()))
large = b"Subject: large\\r\\n\\r\\n" + (b"x" * 78 + b"\\r\\n") * 30000
print(box.append("Archive", None, None, large)[0], box.select("Archive")[1][0])
print(box.fetch("1", "(BODY.PEEK[])")[1][0][1] == large)
box.logout()
`;

test("Python's imaplib names 100,000 UIDs in a line, and stores what it reads back", async () => {
  const { service, certificate, imapsPort } = bench;
  const account = await service.makeAccount();
  await bench.append(account, ['one', 'two']);
  const { stdout } = await run(
    'python3',
    ['-c', PROGRAM, imapsPort, certificate, account.address, account.password],
    { timeout: 60_000 },
  );
  assert.equal(stdout, "OK 2\nOK b'1'\nTrue\n");
});

import assert from 'node:assert/strict';
import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, suite, test } from 'node:test';
import { exportJWK, SignJWT, UnsecuredJWT } from 'jose';
import { pino } from 'pino';
import { onEachEngine, openTestDatabase } from '../../../test/support/databases.ts';
import { activateDomain, openTenants, openTokens } from '../../../test/support/tenants.ts';
import { mailboxColumns } from '../../mailboxes/mailstore/mailstore.ts';
import type { Database } from '../../platform/database/database.ts';
import type { Domains } from '../domains/domains.ts';
import type { Account, Accounts, Tokens, TokensOptions } from './accounts.ts';

const secret = 'an operator’s secret of 32 bytes or more';
const secretBytes = new TextEncoder().encode(secret);
const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 });
const otherRsa = generateKeyPairSync('rsa', { modulusLength: 2048 });
const ec = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const ec384 = generateKeyPairSync('ec', { namedCurve: 'P-384' });
const ed = generateKeyPairSync('ed25519');

const IP = '203.0.113.1';
const logLines: Record<string, unknown>[] = [];
const log = pino({ level: 'warn' }, { write: (line) => logLines.push(JSON.parse(line)) });

const pem = (key: KeyObject) => key.export({ type: 'spki', format: 'pem' }).toString();

onEachEngine('tokens', (engine) => {
  let database: Database;
  let domains: Domains;
  let accounts: Accounts;
  let now = Date.UTC(2026, 0, 1, 12, 0, 0, 250);
  let users = 0;
  const clock = () => now;
  const seconds = () => Math.floor(now / 1000);

  before(async () => {
    ({ database } = await openTestDatabase(engine));
    ({ domains, accounts } = openTenants(database, { now: clock }));
  });

  const tokensWith = (options: Partial<TokensOptions> = {}): Tokens =>
    openTokens(database, { secret: [secret], log, now: clock, ...options });

  async function newAccount(): Promise<Account> {
    users++;
    const userId = `user${users}`;
    const domain = `d${users}.test`;
    await activateDomain(domains, userId, domain);
    const input = { userId, domain, localPart: 'ann', password: 'correct horse' };
    return (await accounts.create(input)).account;
  }

  /** A token as an operator's own software would make one. */
  function mint(
    claims: Record<string, unknown>,
    key: KeyObject | Uint8Array = secretBytes,
    header: { alg: string; kid?: string } = { alg: 'HS256' },
  ): Promise<string> {
    const payload = { iat: seconds(), exp: seconds() + 600, ...claims };
    return new SignJWT(JSON.parse(JSON.stringify(payload))).setProtectedHeader(header).sign(key);
  }

  async function refused(attempt: Promise<unknown>, code: string, why?: RegExp): Promise<void> {
    await assert.rejects(attempt, (error: { code?: string; message?: string }) => {
      assert.equal(error.code, code, String(error));
      if (why) assert.match(error.message ?? '', why);
      return true;
    });
  }

  suite('of ours', () => {
    test('open their account until they expire, with 30 s for clocks', async () => {
      const account = await newAccount();
      const tokens = tokensWith();
      const { token, expiresIn } = await tokens.issue(account);
      assert.equal(expiresIn, 3600);
      const expiresAt = (seconds() + 3600) * 1000;
      const { id: accountId, address, userId } = account;
      const access = { accountId, address, userId, credentialVersion: 1, expiresAt };
      assert.deepEqual(await tokens.authenticate(token), access);
      assert.deepEqual(await tokens.authenticate(token), access, 'the second time from the cache');
      assert.deepEqual(await tokensWith().authenticate(token), access, 'by another process');
      now = expiresAt + 29_000;
      assert.deepEqual(await tokens.authenticate(token), access);
      now = expiresAt + 30_000;
      await refused(tokens.authenticate(token), 'unauthorized', /expired/);
      await refused(tokens.authenticate(token), 'unauthorized', /expired/);
      await refused(tokensWith().authenticate(token), 'unauthorized', /expired/);
    });

    test('bring a mailbox of their account along, whoever signed them', async () => {
      const [account, other] = [await newAccount(), await newAccount()];
      const tokens = tokensWith();
      const made = await Promise.all(
        [account, other].map(({ id }, index) =>
          database.write((tx) =>
            tx
              .insertInto('mailboxes')
              .values({
                account_id: id,
                name: index === 0 ? 'INBOX' : 'Work',
                special_use: null,
                uidvalidity: 7,
                highestmodseq: 12,
              })
              .returning(mailboxColumns)
              .executeTakeFirst(),
          ),
        ),
      );
      const { token } = await tokens.issue(account);
      for (const text of [token, await mint({ sub: account.address })]) {
        const { mailbox } = await tokens.authenticate(text, 'inbox');
        assert.ok(mailbox && made[0]);
        for (const column of mailboxColumns) assert.equal(mailbox[column], made[0][column]);
        assert.equal('mailbox' in (await tokens.authenticate(text, 'Work')), false);
        assert.equal('mailbox' in (await tokens.authenticate(text)), false);
      }
    });

    test('are signed with the first value of the secret, and accepted with each', async () => {
      const account = await newAccount();
      const [old, fresh] = ['o'.repeat(32), 'n'.repeat(32)];
      const before = tokensWith({ secret: [old] });
      const both = tokensWith({ secret: [fresh, old] });
      const after = tokensWith({ secret: [fresh] });
      const { token: first, remembered } = await before.loginRemembered(
        account.address,
        'correct horse',
        '::1',
      );
      const { token: second } = await both.issue(account);
      assert.equal((await both.authenticate(first)).accountId, account.id);
      assert.equal((await after.authenticate(second)).accountId, account.id);
      await refused(after.authenticate(first), 'unauthorized', /not signed by/);
      await refused(before.authenticate(second), 'unauthorized', /not signed by/);
      await refused(after.renew(remembered), 'unauthorized', /not remembered/);
      const renewed = await both.renew(remembered);
      await after.renew(renewed.remembered);
    });

    test('carry account, credential version, issuer and audience, signed by HS256', async () => {
      const account = await newAccount();
      const tokens = tokensWith({
        issuer: 'https://id.test',
        audience: 'mail',
        lifetimeSeconds: 60,
      });
      const { token, expiresIn } = await tokens.issue(account);
      assert.equal(expiresIn, 60);
      const [header, payload] = token
        .split('.')
        .slice(0, 2)
        .map((part) => JSON.parse(Buffer.from(part, 'base64url').toString()));
      assert.deepEqual(header, { alg: 'HS256', typ: 'JWT' });
      assert.deepEqual(payload, {
        sub: account.address,
        postroom_account: account.id,
        postroom_credential: 1,
        iss: 'https://id.test',
        aud: 'mail',
        iat: seconds(),
        exp: seconds() + 60,
      });
      assert.equal((await tokens.authenticate(token)).accountId, account.id);
      await refused(
        tokensWith({ issuer: 'https://other.test' }).authenticate(token),
        'unauthorized',
        /iss claim/,
      );
    });

    test('stop at once when the password is reset', async () => {
      const account = await newAccount();
      const tokens = tokensWith();
      const { token } = await tokens.issue(account);
      await tokens.authenticate(token);
      await accounts.resetPassword(account.userId, account.id);
      await refused(tokens.authenticate(token), 'unauthorized', /reset/);
      await tokens.authenticate((await tokens.issue(account)).token);
    });

    test('stop at once when the account is suspended', async () => {
      const account = await newAccount();
      const tokens = tokensWith();
      const { token } = await tokens.issue(account);
      await tokens.authenticate(token);
      await accounts.update(account.userId, account.id, { status: 'suspended' });
      await refused(tokens.authenticate(token), 'account_inactive');
      await refused(tokens.issue(account), 'account_inactive');
      await refused(tokens.login(account.address, 'correct horse', IP), 'account_inactive');
      await refused(tokens.login(account.address, 'wrong horse', IP), 'unauthorized');
      await accounts.update(account.userId, account.id, { status: 'active' });
      await tokens.authenticate(token);
    });

    test('stop at once when the account is deleted, and never open its successor', async () => {
      const account = await newAccount();
      const { userId, domain } = account;
      const tokens = tokensWith();
      const { token } = await tokens.issue(account);
      await tokens.authenticate(token);
      await accounts.remove(userId, account.id);
      await refused(tokens.authenticate(token), 'unauthorized', /deleted/);
      await refused(tokens.issue(account), 'account_not_found');
      const successor = await accounts.create({ userId, domain, localPart: 'ann' });
      await refused(tokens.authenticate(token), 'unauthorized', /deleted/);
      const { token: own } = await tokens.issue(successor.account);
      assert.equal((await tokens.authenticate(own)).accountId, successor.account.id);
    });

    test('stop at once when the domain is deleted', async () => {
      const account = await newAccount();
      const tokens = tokensWith();
      const { token } = await tokens.issue(account);
      await accounts.removeDomain(account.userId, account.domain);
      await refused(tokens.authenticate(token), 'unauthorized');
    });

    test('are invalid after a change of any claim', async () => {
      const account = await newAccount();
      const tokens = tokensWith({ publicKeyPem: pem(rsa.publicKey) });
      const sub = account.address;
      const forged = [
        { postroom_account: account.id },
        { postroom_credential: 1 },
        { postroom_account: String(account.id), postroom_credential: 1 },
        { postroom_account: account.id, postroom_credential: '1' },
        { postroom_account: [account.id], postroom_credential: [1] },
        { postroom_account: account.id + 0.5, postroom_credential: 1 },
        { postroom_account: 1e300, postroom_credential: 1 },
        { postroom_account: -1, postroom_credential: 1 },
        { postroom_account: null, postroom_credential: null },
        { postroom_account: account.id, postroom_credential: 2 },
        { postroom_account: account.id + 1_000_000, postroom_credential: 1 },
      ];
      for (const claims of forged) {
        const token = await mint({ sub, ...claims });
        await refused(tokens.authenticate(token), 'unauthorized');
      }
      // An operator's key may only name addresses: its account id is ignored.
      const other = await newAccount();
      const claims = { sub: other.address, postroom_account: account.id, postroom_credential: 1 };
      const token = await mint(claims, rsa.privateKey, { alg: 'RS256' });
      assert.equal((await tokens.authenticate(token)).accountId, other.id);
    });
  });

  suite('login', () => {
    test('gives a token for the right password, whatever the case of the address', async () => {
      const account = await newAccount();
      const tokens = tokensWith();
      const { token, expiresIn } = await tokens.login(
        account.address.toUpperCase(),
        'correct horse',
        IP,
      );
      assert.equal(expiresIn, 3600);
      assert.equal((await tokens.authenticate(token)).accountId, account.id);
    });

    test('refuses everything else with the same text', async () => {
      const account = await newAccount();
      const tokens = tokensWith();
      const attempts: [string, string][] = [
        [account.address, 'Correct horse'],
        [account.address, ''],
        [account.address, 'x'.repeat(5000)],
        [account.address, 'correct horse\0'],
        [`bob@${account.domain}`, 'correct horse'],
        [`ann+tag@${account.domain}`, 'correct horse'],
        ['ann@nobody.test', 'correct horse'],
        ['ann', 'correct horse'],
        ['', ''],
        ['a'.repeat(100_000), 'correct horse'],
        ['\0', '\0'],
      ];
      for (const [address, password] of attempts) {
        await refused(
          tokens.login(address, password, IP),
          'unauthorized',
          /^address or password is wrong$/,
        );
      }
    });

    test('logs the client, address and protocol of a failure, and no text that is not an address', async () => {
      const account = await newAccount();
      const tokens = tokensWith();
      logLines.length = 0;
      await refused(tokens.login(account.address.toUpperCase(), 'wrong', IP), 'unauthorized');
      await refused(tokens.login('correct horse', '', IP), 'unauthorized');
      const { address } = account;
      const byImap = tokens.checkMailPassword({ address, password: 'wrong', ip: IP }, 'imap');
      await refused(byImap, 'unauthorized');
      await tokens.login(address, 'correct horse', IP);
      assert.deepEqual(
        logLines.map((line) => [line.level, line.address, line.ip, line.protocol]),
        [
          [40, address, IP, 'http'],
          [40, undefined, IP, 'http'],
          [40, address, IP, 'imap'],
        ],
      );
      assert.doesNotMatch(JSON.stringify(logLines), /horse/);
    });

    test('refuses guesses without checking the password, owners get in', async () => {
      const account = await newAccount();
      const tokens = tokensWith();
      const guess = (password = 'guess') => tokens.login(account.address, password, '192.0.2.1');
      await tokens.login(account.address, 'correct horse', IP);
      for (let n = 0; n < 11; n++) await refused(guess(), 'unauthorized');
      await refused(guess(), 'rate_limited');
      await refused(guess('correct horse'), 'rate_limited');
      await tokens.login(account.address, 'correct horse', IP);
    });

    test('many logins of one account at once are no failures', async () => {
      const account = await newAccount();
      const tokens = tokensWith();
      const logins = Array.from({ length: 30 }, () =>
        tokens.login(account.address, 'correct horse', IP),
      );
      assert.equal((await Promise.all(logins)).length, 30);
    });

    test('accepts the new password after a reset, and not the old one', async () => {
      const account = await newAccount();
      const tokens = tokensWith();
      await accounts.resetPassword(account.userId, account.id, 'battery staple');
      await refused(tokens.login(account.address, 'correct horse', IP), 'unauthorized');
      await tokens.authenticate((await tokens.login(account.address, 'battery staple', IP)).token);
    });
  });

  suite('of an operator', () => {
    const keys: [string, string, KeyObject, KeyObject][] = [
      ['RSA', 'RS256', rsa.privateKey, rsa.publicKey],
      ['RSA', 'RS512', rsa.privateKey, rsa.publicKey],
      ['P-256', 'ES256', ec.privateKey, ec.publicKey],
      ['P-384', 'ES384', ec384.privateKey, ec384.publicKey],
      ['Ed25519', 'EdDSA', ed.privateKey, ed.publicKey],
      ['Ed25519', 'Ed25519', ed.privateKey, ed.publicKey],
    ];
    for (const [kind, alg, privateKey, publicKey] of keys) {
      test(`are accepted with a ${kind} key and ${alg}`, async () => {
        const account = await newAccount();
        const tokens = tokensWith({ publicKeyPem: pem(publicKey) });
        const token = await mint({ sub: account.address }, privateKey, { alg });
        const { accountId, address, expiresAt } = await tokens.authenticate(token);
        assert.deepEqual([accountId, address], [account.id, account.address]);
        assert.equal(expiresAt, (seconds() + 600) * 1000);
        await refused(tokensWith().authenticate(token), 'unauthorized', /not signed by/);
        const hs = await mint({ sub: account.address });
        assert.equal((await tokens.authenticate(hs)).accountId, account.id, 'the secret too');
      });
    }

    test('are refused with every key but their own', async () => {
      const account = await newAccount();
      const tokens = tokensWith({ publicKeyPem: pem(rsa.publicKey) });
      const claims = { sub: account.address };
      const publicPem = pem(rsa.publicKey);
      const good = await mint(claims, rsa.privateKey, { alg: 'RS256' });
      const [header = '', payload = '', signature = ''] = good.split('.');
      const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
      const publicAsSecret = new TextEncoder().encode(publicPem);
      const bad = {
        'another RSA key': await mint(claims, otherRsa.privateKey, { alg: 'RS256' }),
        'an EC key': await mint(claims, ec.privateKey, { alg: 'ES256' }),
        PSS: await mint(claims, rsa.privateKey, { alg: 'PS256' }),
        'HS256 with the public key': await mint(claims, publicAsSecret),
        'HS256 with its DER': await mint(
          claims,
          rsa.publicKey.export({ type: 'spki', format: 'der' }),
        ),
        'HS256 with another secret': await mint(claims, new Uint8Array(32)),
        'HS512 with the secret': await mint(claims, Buffer.alloc(64, secret), { alg: 'HS512' }),
        none: new UnsecuredJWT({ ...claims, exp: seconds() + 600, iat: seconds() }).encode(),
        'None with a signature': `${encode({ alg: 'None' })}.${payload}.${signature}`,
        'no algorithm': `${encode({ typ: 'JWT' })}.${payload}.${signature}`,
        'algorithm of another type': `${encode({ alg: ['HS256'] })}.${payload}.${signature}`,
        'its own key in the header': `${encode({
          alg: 'RS256',
          jwk: await exportJWK(otherRsa.publicKey),
        })}.${payload}.${signature}`,
        'RS256 as HS256': `${encode({ alg: 'HS256' })}.${payload}.${signature}`,
        'no signature': `${header}.${payload}.`,
        'a changed payload': `${header}.${encode({
          sub: 'bob@acme.test',
          iat: seconds(),
          exp: seconds() + 600,
        })}.${signature}`,
        'an unknown critical header': await new SignJWT({ ...claims, exp: seconds() + 600 })
          .setProtectedHeader({ alg: 'RS256', crit: ['x'], x: 1 })
          .sign(rsa.privateKey, { crit: { x: true } }),
      };
      for (const [name, token] of Object.entries(bad)) {
        await assert.rejects(tokens.authenticate(token), { code: 'unauthorized' }, name);
      }
      assert.equal((await tokens.authenticate(good)).accountId, account.id);
    });

    test('are refused for wrong claims', async () => {
      const account = await newAccount();
      const tokens = tokensWith();
      const sub = account.address;
      const at = seconds();
      const bad: [RegExp, Record<string, unknown>][] = [
        [/no exp claim/, { sub, exp: undefined }],
        [/expired/, { sub, exp: at - 30 }],
        [/exp claim/, { sub, exp: 'tomorrow' }],
        [/exp claim/, { sub, exp: null }],
        [/not valid yet/, { sub, nbf: at + 31 }],
        [/nbf claim that is no number/, { sub, nbf: {} }],
        [/iat claim/, { sub, iat: 'now' }],
        [/future/, { sub, iat: at + 60 }],
        [/before the account/, { sub, iat: at - 1 }],
        [/before the account/, { sub, iat: 0 }],
        [/before the account/, { sub, iat: -1e300 }],
        [/no address in its sub claim/, {}],
        [/no address/, { sub: '' }],
        [/no address/, { sub: 7 }],
        [/no address/, { sub: [account.address] }],
        [/no address/, { sub: { address: account.address } }],
        [/no address/, { sub: account.localPart }],
        [/no address/, { sub: `Ann <${account.address}>` }],
        [/no address/, { sub: `${account.address}\0` }],
        [/no account/, { sub: `bob@${account.domain}` }],
        [/no account/, { sub: `ann+tag@${account.domain}` }],
        [/no account/, { sub: 'ann@nobody.test' }],
        [/no address/, { email: account.address }],
      ];
      for (const [why, claims] of bad) {
        await refused(tokens.authenticate(await mint(claims)), 'unauthorized', why);
      }
      const good = [
        { sub },
        { sub: sub.toUpperCase() },
        { sub, iat: at + 0.5, exp: at + 1.5 },
        { sub, exp: at - 29 },
        { sub, nbf: at + 29 },
        { sub, iat: at + 29 },
        { sub, aud: ['x'], iss: 'anybody' },
      ];
      for (const claims of good) {
        const { accountId } = await tokens.authenticate(await mint(claims));
        assert.equal(accountId, account.id, JSON.stringify(claims));
      }
      const forever = await tokens.authenticate(await mint({ sub, exp: 1e300 }));
      assert.ok(!Number.isNaN(new Date(forever.expiresAt).getTime()));
    });

    test('that are not tokens are refused, however large', async () => {
      const tokens = tokensWith({ publicKeyPem: pem(ec.publicKey) });
      const header = Buffer.from('{"alg":"HS256"}').toString('base64url');
      const deep = Buffer.from('['.repeat(5000)).toString('base64url');
      const texts = [
        '',
        '.',
        '..',
        '...',
        'a.b.c',
        'a.b.c.d.e',
        'null',
        `${header}..`,
        `${header}.e30.`,
        `${header}.e30.AAAA`,
        `${deep}.e30.AAAA`,
        `${Buffer.from('null').toString('base64url')}.e30.AAAA`,
        `${Buffer.from('"HS256"').toString('base64url')}.e30.AAAA`,
        '\0'.repeat(100),
        '\ud800',
        '.'.repeat(8000),
        'a'.repeat(1_000_000),
        `${header}.${'a'.repeat(1_000_000)}.a`,
      ];
      for (const text of texts) {
        await refused(tokens.authenticate(text), 'unauthorized', /signed|too long/);
      }
      const bytes = new TextEncoder().encode('[]');
      const { CompactSign } = await import('jose');
      const list = await new CompactSign(bytes)
        .setProtectedHeader({ alg: 'HS256' })
        .sign(secretBytes);
      await refused(tokens.authenticate(list), 'unauthorized');
    });

    test('name the account in the claim that is configured', async () => {
      const account = await newAccount();
      const tokens = tokensWith({ accountClaim: 'email' });
      const good = await mint({ sub: 'somebody else', email: account.address });
      assert.equal((await tokens.authenticate(good)).accountId, account.id);
      await refused(
        tokens.authenticate(await mint({ sub: account.address })),
        'unauthorized',
        /email/,
      );
      const inherited = tokensWith({ accountClaim: 'constructor' });
      await refused(inherited.authenticate(await mint({})), 'unauthorized', /no address/);
      await tokens.authenticate((await tokens.issue(account)).token);
    });

    test('must have the issuer and the audience that are configured', async () => {
      const account = await newAccount();
      const sub = account.address;
      const tokens = tokensWith({ issuer: 'https://id.test', audience: 'mail' });
      const good = { sub, iss: 'https://id.test', aud: ['web', 'mail'] };
      assert.equal((await tokens.authenticate(await mint(good))).accountId, account.id);
      const bad: [RegExp, object][] = [
        [/iss/, { iss: undefined }],
        [/iss/, { iss: 'https://id.test/' }],
        [/iss/, { iss: ['https://id.test'] }],
        [/aud/, { aud: undefined }],
        [/aud/, { aud: 'web' }],
        [/aud/, { aud: [] }],
      ];
      for (const [why, claims] of bad) {
        await refused(tokens.authenticate(await mint({ ...good, ...claims })), 'unauthorized', why);
      }
    });

    test('stay valid after a password reset, but not after a suspension', async () => {
      const account = await newAccount();
      const tokens = tokensWith();
      const token = await mint({ sub: account.address });
      await accounts.resetPassword(account.userId, account.id);
      await tokens.authenticate(token);
      await accounts.update(account.userId, account.id, { status: 'suspended' });
      await refused(tokens.authenticate(token), 'account_inactive');
    });

    test('for a deleted address never open its successor, made within the same second', async () => {
      const account = await newAccount();
      const { userId, domain, address } = account;
      const tokens = tokensWith();
      const token = await mint({ sub: address, exp: seconds() + 86_400 });
      assert.equal((await tokens.authenticate(token)).accountId, account.id);
      now += 1;
      await accounts.remove(userId, account.id);
      await refused(tokens.authenticate(token), 'unauthorized', /no account/);
      now += 1;
      const { account: next } = await accounts.create({ userId, domain, localPart: 'ann' });
      await refused(tokens.authenticate(token), 'unauthorized', /before the account/);
      now += 31_000;
      await refused(tokens.authenticate(token), 'unauthorized', /before the account/);
      const fresh = await mint({ sub: address });
      assert.equal((await tokens.authenticate(fresh)).accountId, next.id);
    });

    test('from a clock that is ahead never open the successor of their account', async () => {
      const { id, userId, domain, address } = await newAccount();
      const tokens = tokensWith();
      const token = await mint({ sub: address, iat: seconds() + 30, exp: seconds() + 86_400 });
      assert.equal((await tokens.authenticate(token)).accountId, id);
      await accounts.remove(userId, id);
      now += 5_000;
      const { account: next } = await accounts.create({ userId, domain, localPart: 'ann' });
      for (let waited = 0; waited < 60; waited++) {
        now += 1_000;
        await refused(tokens.authenticate(token), 'unauthorized');
      }
      const fresh = await mint({ sub: address });
      assert.equal((await tokens.authenticate(fresh)).accountId, next.id);
    });

    test('from the future open no account on an address that had another before', async () => {
      const { id, userId, domain, address } = await newAccount();
      const tokens = tokensWith();
      const ahead = (ms: number) => mint({ sub: address, iat: (now + ms) / 1000 });
      assert.equal((await tokens.authenticate(await ahead(20_000))).accountId, id);
      await accounts.remove(userId, id);
      now += 1_000;
      const next = await accounts.create({ userId, domain, localPart: 'ann' });
      now += 40_000;
      for (const ms of [20_000, 1]) {
        await refused(tokens.authenticate(await ahead(ms)), 'unauthorized', /in the future/);
      }
      assert.equal((await tokens.authenticate(await ahead(0))).accountId, next.account.id);
    });

    test('without iat open the first account of an address, and never a later one', async () => {
      const { id, userId, domain, address } = await newAccount();
      const tokens = tokensWith();
      const token = await mint({ sub: address, iat: undefined, exp: seconds() + 86_400 });
      assert.equal((await tokens.authenticate(token)).accountId, id);
      await accounts.remove(userId, id);
      await refused(tokens.authenticate(token), 'unauthorized', /no account/);
      now += 90 * 86_400_000;
      await accounts.create({ userId, domain, localPart: 'ann' });
      const later = await mint({ sub: address, iat: undefined, exp: seconds() + 86_400 });
      await refused(tokens.authenticate(later), 'unauthorized', /another account before/);
    });

    test('without iat open no account where two claims had the address', async () => {
      const { userId, domain, address } = await newAccount();
      const tokens = tokensWith();
      const token = await mint({ sub: address, iat: undefined, exp: seconds() + 86_400 });
      const hold = (user: string, status: 'pending' | 'active') =>
        database.write(async (tx) => {
          const { id } = await tx
            .updateTable('domains')
            .set({ status, verified_at: now })
            .where('name', '=', domain)
            .where('user_id', '=', user)
            .returning('id')
            .executeTakeFirstOrThrow();
          // A claim whose records are all verified would otherwise become active again.
          await tx
            .updateTable('dns_records')
            .set({ status: status === 'active' ? 'verified' : 'failed' })
            .where('domain_id', '=', id)
            .execute();
        });
      await hold(userId, 'pending');
      await activateDomain(domains, 'rival', domain);
      await accounts.create({ userId: 'rival', domain, localPart: 'ann' });
      await refused(tokens.authenticate(token), 'unauthorized', /another account before/);
      await hold('rival', 'pending');
      await hold(userId, 'active');
      await refused(tokens.authenticate(token), 'unauthorized', /another account before/);
    });

    test('for a deleted address never open its successor, however late it comes', async () => {
      const { id, userId, domain, address } = await newAccount();
      const tokens = tokensWith();
      const token = await mint({ sub: address, exp: seconds() + 86_400 });
      await tokens.authenticate(token);
      await accounts.remove(userId, id);
      for (const later of [31_000, 60_000, 3_600_000]) {
        now += later;
        const { account } = await accounts.create({ userId, domain, localPart: 'ann' });
        await refused(tokens.authenticate(token), 'unauthorized', /before the account/);
        const fresh = await mint({ sub: address });
        assert.equal((await tokens.authenticate(fresh)).accountId, account.id);
        await accounts.remove(userId, account.id);
      }
    });

    test('for an address of a deleted domain never open the next owner’s', async () => {
      const account = await newAccount();
      const { userId, domain, address } = account;
      const tokens = tokensWith();
      const token = await mint({ sub: address });
      await accounts.removeDomain(userId, domain);
      await activateDomain(domains, 'next owner', domain);
      await accounts.create({ userId: 'next owner', domain, localPart: 'ann' });
      await refused(tokens.authenticate(token), 'unauthorized', /before the account/);
    });

    test('from another owner’s time never open an older account on the name', async () => {
      const old = await newAccount();
      const setStatus = (userId: string, status: 'pending' | 'active') =>
        database.write(async (tx) => {
          await tx
            .updateTable('domains')
            .set(status === 'active' ? { status, verified_at: now } : { status, lapsed_at: now })
            .where('name', '=', old.domain)
            .where('user_id', '=', userId)
            .execute();
        });
      await setStatus(old.userId, 'pending');
      await database.write((tx) =>
        tx
          .updateTable('dns_records')
          .set({ status: 'failed' })
          .where('status', '=', 'verified')
          .execute(),
      );
      now += 60_000;
      await activateDomain(domains, 'other owner', old.domain);
      const input = { userId: 'other owner', domain: old.domain, localPart: 'ann' };
      const { account } = await accounts.create(input);
      const tokens = tokensWith();
      now += 60_000;
      const token = await mint({ sub: old.address, exp: seconds() + 86_400 });
      assert.equal((await tokens.authenticate(token)).accountId, account.id);
      now += 60_000;
      const ahead = await mint({ sub: old.address, iat: seconds() + 30, exp: seconds() + 86_400 });
      await setStatus('other owner', 'pending');
      await refused(tokens.authenticate(token), 'unauthorized', /no account/);
      await setStatus(old.userId, 'active');
      await refused(tokens.authenticate(token), 'unauthorized', /before the account/);
      now += 31_000;
      await refused(tokens.authenticate(ahead), 'unauthorized', /before the account/);
      const fresh = await mint({ sub: old.address });
      assert.equal((await tokens.authenticate(fresh)).accountId, old.id);
    });
  });

  suite('by a JWK set', () => {
    let server: Server;
    let keys: object[] = [];
    let status = 200;
    let requests = 0;
    let jwksUrl = '';

    before(async () => {
      server = createServer((_, response) => {
        requests++;
        response.writeHead(status, { 'content-type': 'application/json' });
        response.end(JSON.stringify({ keys }));
      });
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
      jwksUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/keys`;
    });

    after(() => server.close());

    const jwk = async (key: KeyObject, more: object = {}) => ({
      ...(await exportJWK(key)),
      ...more,
    });

    test('are taken by their key id, and the set is fetched once', async () => {
      keys = [await jwk(rsa.publicKey, { kid: 'r' }), await jwk(ec.publicKey, { kid: 'e' })];
      const account = await newAccount();
      const tokens = tokensWith({ jwksUrl });
      requests = 0;
      const claims = { sub: account.address };
      const good = await Promise.all([
        mint(claims, rsa.privateKey, { alg: 'RS256', kid: 'r' }),
        mint(claims, ec.privateKey, { alg: 'ES256', kid: 'e' }),
        mint(claims, ec.privateKey, { alg: 'ES256' }),
        mint(claims),
      ]);
      for (const token of good) {
        assert.equal((await tokens.authenticate(token)).accountId, account.id);
      }
      const bad = await Promise.all([
        mint(claims, otherRsa.privateKey, { alg: 'RS256', kid: 'r' }),
        mint(claims, ed.privateKey, { alg: 'EdDSA', kid: 'made up' }),
        mint(claims, otherRsa.privateKey, { alg: 'RS256', kid: 'made up' }),
        mint(claims, rsa.privateKey, { alg: 'PS256', kid: 'r' }),
      ]);
      for (const token of bad) {
        await refused(tokens.authenticate(token), 'unauthorized', /not signed by a key of ours/);
      }
      assert.equal(requests, 1);
    });

    test('without a key id are tried with every key that fits', async () => {
      keys = [await jwk(otherRsa.publicKey), await jwk(rsa.publicKey)];
      const account = await newAccount();
      const tokens = tokensWith({ jwksUrl });
      const claims = { sub: account.address };
      const good = await mint(claims, rsa.privateKey, { alg: 'RS256' });
      assert.equal((await tokens.authenticate(good)).accountId, account.id);
      const expired = await mint({ ...claims, exp: seconds() - 60 }, rsa.privateKey, {
        alg: 'RS256',
      });
      await refused(tokens.authenticate(expired), 'unauthorized', /expired/);
      const third = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey;
      const bad = await mint(claims, third, { alg: 'RS256' });
      await refused(tokens.authenticate(bad), 'unauthorized', /not signed by/);
    });

    test('a symmetric key in the set is not used', async () => {
      const k = Buffer.from('a symmetric key that was published').toString('base64url');
      keys = [{ kty: 'oct', k, alg: 'HS256', kid: 'oct' }];
      const account = await newAccount();
      const key = Buffer.from(k, 'base64url');
      const token = await mint({ sub: account.address }, key, { alg: 'HS256', kid: 'oct' });
      await refused(tokensWith({ jwksUrl }).authenticate(token), 'unauthorized', /not signed by/);
    });

    test('are refused 10 minutes after their key left the set', async (t) => {
      const minute = 60_000;
      t.mock.timers.enable({ apis: ['Date'], now });
      keys = [await jwk(rsa.publicKey, { kid: 'r' })];
      const account = await newAccount();
      const tokens = tokensWith({ jwksUrl, now: Date.now });
      const claims = { sub: account.address, exp: seconds() + 86_400 };
      const token = await mint(claims, rsa.privateKey, { alg: 'RS256', kid: 'r' });
      const start = now;
      const at = async (minutes: number) => {
        t.mock.timers.setTime(start + minutes * minute);
        return (await tokens.authenticate(token)).accountId;
      };
      const other = await mint({ sub: account.address }, rsa.privateKey, {
        alg: 'RS256',
        kid: 'r',
      });
      await tokens.authenticate(other);
      // The key leaves the set right after the set was fetched.
      keys = [await jwk(otherRsa.publicKey, { kid: 'other' })];
      assert.equal(await at(4.99), account.id, 'checked by the set as it was fetched');
      assert.equal(await at(9.98), account.id, 'believed since that check');
      await refused(at(10), 'unauthorized', /not signed by/);
      now = start;
    });

    test('a set that cannot be fetched makes the service unavailable, not the token invalid', async () => {
      const account = await newAccount();
      const claims = { sub: account.address };
      const token = await mint(claims, rsa.privateKey, { alg: 'RS256' });
      keys = [await jwk(rsa.publicKey)];
      status = 500;
      const tokens = tokensWith({ jwksUrl });
      await refused(tokens.authenticate(token), 'unavailable');
      await refused(
        tokensWith({ jwksUrl: 'http://127.0.0.1:1/' }).authenticate(token),
        'unavailable',
      );
      assert.equal((await tokens.authenticate(await mint(claims))).accountId, account.id);
      status = 200;
      assert.equal((await tokens.authenticate(token)).accountId, account.id);
    });
  });
});

suite('unusable keys prevent the start', () => {
  const bad = {
    'RSA of 1024 bits': generateKeyPairSync('rsa', { modulusLength: 1024 }).publicKey,
    X25519: generateKeyPairSync('x25519').publicKey,
    secp256k1: generateKeyPairSync('ec', { namedCurve: 'secp256k1' }).publicKey,
  };
  for (const [kind, key] of Object.entries(bad)) {
    test(kind, async () => {
      const { database } = await openTestDatabase('sqlite');
      assert.throws(
        () => openTokens(database, { publicKeyPem: pem(key) }),
        /kind that signs no tokens/,
      );
    });
  }
});

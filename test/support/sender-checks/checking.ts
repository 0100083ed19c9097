/** Checks messages against a zone of domains that publish different records. */
import {
  createSenderChecks,
  type SenderChecks,
  type SenderChecksOptions,
  type SendingClient,
  type Verdicts,
} from '../../../src/mail/delivery/sender-checks/check-sender.ts';
import { ed25519Key, rsaKey, type Signing, sign } from './signed-mail.ts';
import { collect, cutAt, streamOf } from './stream.ts';
import { lookupIn, type Zone } from './zone.ts';

export const HOST = 'mail.example';
/** Short for answers that never come; answers of the test zone arrive before any timer. */
export const times = { lookupMs: 50, totalMs: 5_000, restMs: 30_000 };

const key = [rsaKey.record];
export const records: Zone['records'] = {
  'TXT _dmarc.bank.test': ['v=DMARC1; p=reject; sp=quarantine'],
  'TXT _dmarc.strict.test': ['v=DMARC1; p=reject; adkim=s; aspf=s'],
  'TXT _dmarc.junk.test': ['v=DMARC1; p=quarantine'],
  'TXT _dmarc.watch.test': ['v=DMARC1; p=none'],
  'TXT _dmarc.half.test': ['v=DMARC1; p=reject; pct=50'],
  'TXT _dmarc.trial.test': ['v=DMARC1; p=reject; t=y'],
  'TXT _dmarc.typo.test': ['v=DMARC1; p=rejekt'],
  'TXT bank.test': ['v=spf1 ip4:192.0.2.1 -all'],
  'TXT out.bank.test': ['v=spf1 ip4:192.0.2.1 -all'],
  'TXT strict.test': ['v=spf1 ip4:192.0.2.1 -all'],
  'TXT out.strict.test': ['v=spf1 ip4:192.0.2.1 -all'],
  'TXT evil.test': ['v=spf1 +all'],
  'TXT broken.test': ['v=spf1 ip4:nonsense -all'],
  'TXT chain.test': ['v=spf1 include:bank.test ~all'],
  'TXT key1._domainkey.bank.test': key,
  'TXT key1._domainkey.mail.bank.test': key,
  'TXT key1._domainkey.strict.test': key,
  'TXT key1._domainkey.mail.strict.test': key,
  'TXT key1._domainkey.evil.test': key,
  'TXT key1._domainkey.list.test': key,
  'TXT key1._domainkey.watch.test': key,
  'TXT key2._domainkey.bank.test': [ed25519Key.record],
};

export const insider: SendingClient = {
  from: 'ann@bank.test',
  heloName: 'out.bank.test',
  remoteAddress: '192.0.2.1',
  at: Date.now(),
};
export const stranger: SendingClient = {
  from: 'eve@evil.test',
  heloName: 'evil.test',
  remoteAddress: '203.0.113.9',
  at: Date.now(),
};

export function mail(from: string, body = 'Hello.\r\n'): string {
  return `From: ${from}\r\nTo: bob@acme.test\r\nSubject: Hi\r\n\r\n${body}`;
}

interface Check {
  readonly message: string | Buffer;
  readonly client?: SendingClient;
  readonly zone?: Partial<Zone>;
  readonly options?: Partial<SenderChecksOptions>;
}

export async function pass(checks: SenderChecks, message: string | Buffer, client: SendingClient) {
  const checking = checks.begin(client);
  const chunks = cutAt(Buffer.from(message), [1, 100, 101, 300, 800]);
  const left = await collect(checking.through(streamOf(chunks)));
  return { left: left.toString(), verdicts: await checking.verdicts() };
}

export async function check({ message, client = stranger, zone, options }: Check) {
  const dns = lookupIn({ records, ...zone });
  const checks = createSenderChecks({
    dns,
    hostname: HOST,
    enforce: true,
    times,
    ...options,
  });
  return { ...(await pass(checks, message, client)), asked: dns.asked };
}

/** SPF, DKIM, DMARC and the action, on one line. */
export function inShort({ spf, dkim, dmarc, action }: Verdicts): string {
  const signatures = dkim.map(({ result, aligned }) => `${result}${aligned ? '*' : ''}`);
  return `${spf.result} | ${signatures.join(' ')} | ${dmarc.result} ${dmarc.policy} ${dmarc.domain} | ${action}`;
}

export const signed = (from: string, signing: Signing) => sign(mail(from), signing);

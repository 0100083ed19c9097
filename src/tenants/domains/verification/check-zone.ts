/** Asks DNS about all records of a claim, and judges the answers. */
import type { DnsAnswer, DnsLookup, DnsType } from '../../../protocols/dns/dns.ts';
import { organizationalDomain } from '../../../protocols/message/message.ts';
import type { DnsRecord } from '../dns-records.ts';
import {
  hasPolicy,
  judgeDkim,
  judgeDmarc,
  judgeMx,
  type PolicyAnswer,
  type Verdict,
} from './judge-records.ts';
import { evaluateSpf, judgeSpf, type OurServers, spfRecordsOf } from './judge-spf.ts';

type CheckedRecord = Pick<DnsRecord, 'id' | 'purpose' | 'host' | 'expectedValue'>;

/**
 * Checks records of one domain, all at the same time.
 *
 * @param findOurs called where an SPF record has to be evaluated
 * @returns the verdict of each record by its id
 */
export async function checkZone(
  dns: DnsLookup,
  domain: string,
  records: readonly CheckedRecord[],
  findOurs: () => Promise<OurServers>,
): Promise<Map<number, Verdict>> {
  const once = askOnce(dns);
  const verdicts = records.map(
    async (record) => [record.id, await checkRecord(once, domain, record, findOurs)] as const,
  );
  return new Map(await Promise.all(verdicts));
}

async function checkRecord(
  dns: DnsLookup,
  domain: string,
  { purpose, host, expectedValue }: CheckedRecord,
  findOurs: () => Promise<OurServers>,
): Promise<Verdict> {
  switch (purpose) {
    case 'mx':
      return judgeMx(domain, expectedValue.toLowerCase(), await dns.lookup(domain, 'MX'));
    case 'spf':
      return checkSpf(dns, domain, expectedValue, findOurs);
    case 'dmarc':
      return checkDmarc(dns, domain);
    case 'dkim':
      return checkDkim(dns, `${host}.${domain}`, expectedValue);
  }
}

async function checkSpf(
  dns: DnsLookup,
  domain: string,
  expected: string,
  findOurs: () => Promise<OurServers>,
): Promise<Verdict> {
  const include = /include:(\S+)/.exec(expected)?.[1]?.toLowerCase() ?? '';
  const txt = await dns.lookup(domain, 'TXT');
  const evaluation =
    spfRecordsOf(txt).length === 1
      ? await evaluateSpf(dns, domain, include, await findOurs())
      : undefined;
  return judgeSpf(domain, include, txt, evaluation);
}

async function checkDmarc(dns: DnsLookup, domain: string): Promise<Verdict> {
  const ask = async (name: string): Promise<PolicyAnswer> => ({
    domain: name,
    txt: await dns.lookup(`_dmarc.${name}`, 'TXT'),
  });
  const own = await ask(domain);
  const organization = organizationalDomain(domain);
  const needed = own.txt.kind !== 'unanswered' && !hasPolicy(own.txt);
  return needed && organization !== domain
    ? judgeDmarc(own, await ask(organization))
    : judgeDmarc(own);
}

async function checkDkim(dns: DnsLookup, name: string, expected: string): Promise<Verdict> {
  const txt = await dns.lookup(name, 'TXT');
  if (txt.kind !== 'absent') return judgeDkim(expected, { name, txt });
  const cname = await dns.lookup(name, 'CNAME');
  const alias = cname.kind === 'records' ? cname.records[0] : undefined;
  return judgeDkim(expected, { name, txt, alias });
}

/** Questions at most: a hostile SPF record can lead to hundreds. */
const QUESTIONS_MAX = 200;
/** Milliseconds after which nothing more is asked. */
const ASK_MS = 40_000;

/**
 * Makes each lookup once and keeps its answer, so that everything in one check is judged by the same answers. Lookups
 * above the limits are `unanswered`.
 */
function askOnce(dns: DnsLookup): DnsLookup {
  const answers = new Map<string, Promise<DnsAnswer<DnsType>>>();
  const end = performance.now() + ASK_MS;
  return {
    lookup<Type extends DnsType>(name: string, type: Type): Promise<DnsAnswer<Type>> {
      const key = `${type} ${name.toLowerCase()}`;
      let answer = answers.get(key);
      if (!answer) {
        if (answers.size >= QUESTIONS_MAX) return unanswered('too many questions');
        if (performance.now() > end) return unanswered('the check took too long');
        answer = dns.lookup(name, type);
        answers.set(key, answer);
      }
      // The key tells the type of the answer, which the compiler cannot follow.
      return answer as Promise<DnsAnswer<Type>>;
    },
  };
}

async function unanswered(reason: string): Promise<{ kind: 'unanswered'; reason: string }> {
  return { kind: 'unanswered', reason };
}

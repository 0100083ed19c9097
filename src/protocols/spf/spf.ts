/**
 * Evaluates SPF records (RFC 7208) with `mailauth` in its strict mode: nested includes, redirect, macros, and both limits
 * of section 4.6.4. DNS is asked by the caller.
 */
import type { DnsAnswer } from '../dns/dns.ts';

const types = ['A', 'AAAA', 'MX', 'PTR', 'TXT'] as const;

/** Types of the records that an evaluation asks for. */
export type SpfType = (typeof types)[number];

/** Limits in octets of an SPF record and of one term, and of the number of terms: far above those of honest records. */
const MAX_RECORD = 16 * 1024;
const MAX_TERMS = 500;
const MAX_TERM = 512;
/** A record with a syntax error: evaluation ends in permerror. */
const UNREADABLE = 'v=spf1 too-large';

export interface SpfQuestion {
  /** Address of the sender; `''` for the null sender, whose domain is that of HELO. */
  readonly sender: string;
  readonly helo: string;
  /** Address of the client. */
  readonly ip: string;
  /** Our own name. It decides nothing; without it the library would look up the name of this machine. */
  readonly mta: string;
  ask(name: string, type: SpfType): Promise<DnsAnswer<SpfType>>;
}

export interface SpfEvaluated {
  /** In RFC 7208's words. */
  readonly result: string;
  /** For people. */
  readonly comment: string;
  readonly lookups: number;
  /** Those of them that found nothing. */
  readonly voidLookups: number;
}

/** Loaded at first use, since it would take each start a tenth of a second; kept, since each `import` takes time again. */
let library: Promise<typeof import('mailauth/lib/spf/index.js')> | undefined;

export async function evaluateSpf({ ask, ...asked }: SpfQuestion): Promise<SpfEvaluated> {
  const resolver = async (name: string, type: string) => {
    const known = types.find((one) => one === type);
    if (!known) throw new Error(`SPF asks for a record of type ${type}`);
    return toRecords(await ask(name, known));
  };
  library ??= import('mailauth/lib/spf/index.js');
  const { spf } = await library;
  const { status, lookups } = await spf({ ...asked, strict: true, resolver });
  const { result, comment } = status;
  return {
    result,
    comment: typeof comment === 'string' ? comment : '',
    lookups: lookups?.count ?? 0,
    voidLookups: lookups?.void ?? 0,
  };
}

/** The codes by which the library knows absent names and records. */
const codes = { no_name: 'ENOTFOUND', no_record: 'ENODATA', bad_name: 'EBADNAME' } as const;

/** An answer as `dns.resolve` returns or throws it: the form that the library expects. */
function toRecords(answer: DnsAnswer<SpfType>): string[] {
  if (answer.kind !== 'records') {
    const code = answer.kind === 'absent' ? codes[answer.reason] : 'EUNANSWERED';
    throw Object.assign(new Error(`DNS: ${answer.reason}`), { code });
  }
  const records = answer.records.map((record) =>
    typeof record === 'string'
      ? boundTerms(record)
      : { priority: record.preference, exchange: record.exchange },
  );
  // Its types leave out the form of MX that it accepts: the objects of Node's own resolver.
  return records as string[];
}

/** Each term takes time; checking the syntax of one takes time that grows with the square of its length. */
function boundTerms(record: string): string {
  if (!/^v=spf1(?: |$)/i.test(record)) return record;
  if (record.length > MAX_RECORD) return UNREADABLE;
  const terms = record.split(' ');
  const isBounded = terms.length <= MAX_TERMS && terms.every(({ length }) => length <= MAX_TERM);
  return isBounded ? record : UNREADABLE;
}

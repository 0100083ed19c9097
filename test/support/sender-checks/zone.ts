/** DNS from a list of records, without a network. */

import type {
  LookupAnswer,
  LookupType,
  SenderDns,
} from '../../../src/mail/delivery/sender-checks/lookups.ts';
import type { MxRecord } from '../../../src/protocols/dns/dns.ts';

export interface Zone {
  /** Records by `TYPE name`; what is not listed does not exist. */
  readonly records: Record<string, readonly (string | MxRecord)[]>;
  /** Questions (`TYPE name`) that are never answered. */
  readonly silent?: readonly string[];
  /** Questions that the resolver gives up at once. */
  readonly failing?: readonly string[];
}

export interface ZoneLookup {
  readonly lookup: SenderDns['lookup'];
  /** Every question that was asked, in order. */
  readonly asked: string[];
  zone: Zone;
}

const never = new Promise<LookupAnswer>(() => {});

export function lookupIn(zone: Zone): ZoneLookup {
  const asked: string[] = [];
  const answer = (question: string): LookupAnswer | Promise<LookupAnswer> => {
    const { records, silent = [], failing = [] } = holder.zone;
    if (silent.includes(question) || silent.includes('*')) return never;
    if (failing.includes(question) || failing.includes('*')) {
      return { kind: 'unanswered', reason: 'SERVFAIL' };
    }
    const found = records[question];
    return found ? { kind: 'records', records: found } : { kind: 'absent', reason: 'no_name' };
  };
  const holder: ZoneLookup = {
    asked,
    zone,
    lookup: async (name: string, type: LookupType) => {
      const question = `${type} ${name}`;
      asked.push(question);
      return answer(question);
    },
  };
  return holder;
}

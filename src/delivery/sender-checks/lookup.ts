/**
 * DNS as the checks ask it: a plain function, which `dns/`'s lookup fits.
 */

export type LookupType = 'A' | 'AAAA' | 'MX' | 'PTR' | 'TXT';

export interface MailExchanger {
  /** Lower is preferred. */
  readonly preference: number;
  readonly exchange: string;
}

/**
 * What DNS said. `absent` is an answer, too: the name, or the record at it, is not there.
 * `unanswered` says nothing about the record: nobody could be asked.
 */
export type LookupAnswer =
  | {
      readonly kind: 'records';
      /** TXT: the strings of a record joined, one character for each byte. */
      readonly records: readonly (string | MailExchanger)[];
    }
  | { readonly kind: 'absent'; readonly reason: 'no_name' | 'no_record' | 'bad_name' }
  | { readonly kind: 'unanswered'; readonly reason: string };

/** Asks one question. Rejects for bugs only: what goes wrong is `unanswered`. */
export type Lookup = (name: string, type: LookupType) => Promise<LookupAnswer>;

export function unanswered(reason: string): LookupAnswer {
  return { kind: 'unanswered', reason };
}

/** The records that are text; those of TXT all are. */
export function textRecords(answer: LookupAnswer): string[] {
  if (answer.kind !== 'records') return [];
  return answer.records.filter((record) => typeof record === 'string');
}

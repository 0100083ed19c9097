/** What DNS said, or that it said nothing. */

/** One MX record (RFC 1035 section 3.3.9). */
export interface MxRecord {
  /** Lower is preferred (RFC 5321 section 5.1). */
  readonly preference: number;
  /** Lower case without the root's dot; `''` is the root, a null MX (RFC 7505 section 3). */
  readonly exchange: string;
}

/** What a record of each type that we ask for is answered as. */
export interface DnsRecords {
  A: string;
  AAAA: string;
  CNAME: string;
  MX: MxRecord;
  PTR: string;
  /**
   * The character strings of one TXT record joined without anything between them, as SPF (RFC 7208
   * section 3.3), DKIM (RFC 6376 section 3.6.2.2) and DMARC want it; one character for each byte.
   */
  TXT: string;
}

export type DnsType = keyof DnsRecords;

/**
 * The answer to one question. `absent` is an answer, too: the name or the record is not there.
 * `unanswered` says nothing about the record: nobody could be asked.
 */
export type DnsAnswer<Type extends DnsType> =
  | { readonly kind: 'records'; readonly records: readonly DnsRecords[Type][] }
  | {
      readonly kind: 'absent';
      /** No such name (NXDOMAIN), no such record at the name, or no name that DNS could hold. */
      readonly reason: 'no_name' | 'no_record' | 'bad_name';
    }
  | {
      readonly kind: 'unanswered';
      /** What was wrong, for people: `SERVFAIL`, `timeout`. */
      readonly reason: string;
    };

/** Asks DNS. Never throws: what goes wrong is `unanswered`. */
export interface DnsLookup {
  /** @param name host name in ASCII, with or without the root's dot */
  lookup<Type extends DnsType>(name: string, type: Type): Promise<DnsAnswer<Type>>;
}

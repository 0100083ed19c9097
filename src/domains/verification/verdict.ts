/** What a check of one DNS record comes to. */

/**
 * - `match`: DNS says what it has to, by meaning
 * - `mismatch`: DNS has something else
 * - `absent`: DNS has nothing of the kind
 * - `unknown`: DNS could not be asked, so nothing is known and nothing changes
 */
export type Verdict =
  | {
      readonly outcome: 'match' | 'mismatch' | 'absent';
      /** What was seen; `no record` where there was nothing. */
      readonly observed: string;
      /** One sentence for the owner of the zone: what is so, and what to do about it. */
      readonly detail: string;
    }
  | { readonly outcome: 'unknown'; readonly detail: string };

export const NO_RECORD = 'no record';

/** The verdict of a question that nobody answered. */
export function unanswered(name: string, reason: string): Verdict {
  return {
    outcome: 'unknown',
    detail: `DNS could not be asked about ${name} (${reason}): nothing was changed, it is tried again.`,
  };
}

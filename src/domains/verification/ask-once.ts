/** One domain's check as a bounded conversation with DNS. */
import type { DnsAnswer, DnsLookup, DnsType } from '../../dns/dns.ts';

export interface ConversationLimits {
  /** Questions at most: a hostile SPF record can lead to hundreds. */
  readonly questions: number;
  /** Milliseconds after which nothing more is asked. */
  readonly time: number;
}

const LIMITS: ConversationLimits = { questions: 200, time: 40_000 };

/**
 * Asks each question once and remembers the answer, so that all that is judged in one check is
 * judged by the same answers. What goes beyond the limits is `unanswered`.
 */
export function askOnce(dns: DnsLookup, limits = LIMITS): DnsLookup {
  const answers = new Map<string, Promise<DnsAnswer<DnsType>>>();
  const end = performance.now() + limits.time;
  return {
    lookup<Type extends DnsType>(name: string, type: Type): Promise<DnsAnswer<Type>> {
      const key = `${type} ${name.toLowerCase()}`;
      let answer = answers.get(key);
      if (!answer) {
        if (answers.size >= limits.questions) return tired('too many questions');
        if (performance.now() > end) return tired('the check took too long');
        answer = dns.lookup(name, type);
        answers.set(key, answer);
      }
      // The key tells the type of the answer, which the compiler cannot follow.
      return answer as Promise<DnsAnswer<Type>>;
    },
  };
}

async function tired(reason: string): Promise<{ kind: 'unanswered'; reason: string }> {
  return { kind: 'unanswered', reason };
}

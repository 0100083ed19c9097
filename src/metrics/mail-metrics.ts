/** Metrics of mail that comes in: what DNS answered, and what the sender checks found. */
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

/** Who asks DNS. */
export type DnsPurpose = 'sender_checks' | 'verification' | 'delivery';

/** What became of a question; `kept` is one that an earlier answer stood for. */
export type DnsOutcome = 'records' | 'absent' | 'unanswered' | 'kept';

/** The results of the checks of one message; each is one of few words. */
export interface CheckedSender {
  readonly spf: { readonly result: string };
  readonly dkim: readonly { readonly result: string }[];
  readonly dmarc: { readonly result: string };
  readonly arc: { readonly result: string };
}

/** What became of a question to the spam filter. */
export type SpamOutcome = 'accept' | 'junk' | 'defer' | 'reject' | 'failed' | 'skipped';

export interface MailMetrics {
  /** @param ms how long it took; left out where nobody was asked */
  countDns(purpose: DnsPurpose, outcome: DnsOutcome, ms?: number): void;
  /** Counts what was found of one message. */
  countChecks(checked: CheckedSender): void;
  /** Counts a message that was taken. @param ms from when it was read and checked until it was stored */
  countReceived(ms: number): void;
  /**
   * Counts what the spam filter said of a message.
   *
   * @param ms how long it took; left out where it was not asked
   */
  countSpamCheck(outcome: SpamOutcome, ms?: number): void;
  /** Says whether the spam filter answers; never called where there is none. */
  setSpamFilterUp(isUp: boolean): void;
  /** Says whether DNS is out, so that mail is taken unchecked. */
  setChecksOff(isOff: boolean): void;
}

export function addMailMetrics(registry: Registry): MailMetrics {
  const registers = [registry];
  const questions = new Counter({
    name: 'postroom_dns_questions_total',
    help: 'Questions to DNS, by who asked and by outcome.',
    labelNames: ['purpose', 'outcome'] as const,
    registers,
  });
  const latency = new Histogram({
    name: 'postroom_dns_question_duration_seconds',
    help: 'How long DNS took to answer, all attempts together.',
    labelNames: ['purpose'] as const,
    buckets: [0.005, 0.02, 0.1, 0.5, 1, 2, 5, 15],
    registers,
  });
  const checks = new Counter({
    name: 'postroom_sender_checks_total',
    help: 'Sender checks of messages that came in by SMTP, by check and verdict.',
    labelNames: ['check', 'verdict'] as const,
    registers,
  });
  const received = new Histogram({
    name: 'postroom_receive_duration_seconds',
    help: 'From a message that was read and checked until it was stored, of those that were taken.',
    buckets: [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 30],
    registers,
  });
  const off = new Gauge({
    name: 'postroom_sender_checks_off',
    help: '1 while DNS does not answer and mail is taken unchecked, else 0.',
    registers,
  });
  return {
    countDns(purpose, outcome, ms) {
      questions.inc({ purpose, outcome });
      if (ms !== undefined) latency.observe({ purpose }, ms / 1000);
    },
    countChecks({ spf, dkim, dmarc, arc }) {
      checks.inc({ check: 'spf', verdict: spf.result });
      for (const { result } of dkim) checks.inc({ check: 'dkim', verdict: result });
      if (dkim.length === 0) checks.inc({ check: 'dkim', verdict: 'none' });
      checks.inc({ check: 'dmarc', verdict: dmarc.result });
      checks.inc({ check: 'arc', verdict: arc.result });
    },
    countReceived: (ms) => received.observe(ms / 1000),
    setChecksOff: (isOff) => off.set(Number(isOff)),
    ...addSpamMetrics(registry),
  };
}

function addSpamMetrics(
  registry: Registry,
): Pick<MailMetrics, 'countSpamCheck' | 'setSpamFilterUp'> {
  const registers = [registry];
  const checks = new Counter({
    name: 'postroom_spam_checks_total',
    help: 'Messages by what the spam filter said of them.',
    labelNames: ['action'] as const,
    registers,
  });
  const latency = new Histogram({
    name: 'postroom_spam_check_duration_seconds',
    help: 'How long the spam filter took to answer.',
    buckets: [0.02, 0.1, 0.5, 1, 2, 5],
    registers,
  });
  const up = new Gauge({
    name: 'postroom_spam_filter_up',
    help: 'Whether the spam filter answers: 1, or 0 where mail is taken without it.',
    registers,
  });
  // Without a filter it has no value.
  up.remove();
  return {
    countSpamCheck(action, ms) {
      checks.inc({ action });
      if (ms !== undefined) latency.observe(ms / 1000);
    },
    setSpamFilterUp: (isUp) => up.set(Number(isUp)),
  };
}

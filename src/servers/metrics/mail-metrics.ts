/**
 * Metrics of incoming mail: SMTP and LMTP clients, answers of DNS, results of the sender checks and the spam filter,
 * and the outcome. Labels have few values: no text of a client becomes one.
 */

import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { SpamOutcome } from '../../mail/delivery/delivery.ts';
import { answerOf, type ErrorCode } from '../../platform/errors/errors.ts';

type MailProtocol = 'smtp' | 'lmtp' | 'submission';

/** The events of a listener for mail. */
export interface MailTraffic {
  connected(): void;
  disconnected(): void;
  /** @param verb as the client sent it, in upper case */
  command(verb: string): void;
  /** A command or a message was refused or deferred, for this reason. */
  refused(code: ErrorCode): void;
}

/** The user of DNS. */
export type DnsPurpose = 'sender_checks' | 'verification' | 'delivery';

/** The outcome of a lookup; `kept` is one with a cached answer. */
export type DnsOutcome = 'records' | 'absent' | 'unanswered' | 'kept';

/** The results of the checks of one message; each is one of few words. */
export interface CheckedSender {
  readonly spf: { readonly result: string };
  readonly dkim: readonly { readonly result: string }[];
  readonly dmarc: { readonly result: string };
  readonly arc: { readonly result: string };
}

export interface MailMetrics {
  /** The counters for a listener of the protocol. */
  mailTraffic(protocol: MailProtocol): MailTraffic;
  /** Counts lookups of one user. `ms` is how long the answer took; left out for a cached one. */
  dnsQuestions(purpose: DnsPurpose): (outcome: DnsOutcome, ms?: number) => void;
  /** Counts a recipient of an inbound message by its outcome. */
  countRecipient(result: 'delivered' | 'temporary' | 'permanent'): void;
  /** Counts the results of the checks of one message. */
  countChecks(checked: CheckedSender): void;
  /** Counts an accepted message. @param ms from the end of its checks until it was stored */
  countReceived(ms: number): void;
  /**
   * Counts the spam filter's answer to a message.
   *
   * @param ms how long it took; left out where it was not asked
   */
  countSpamCheck(outcome: SpamOutcome, ms?: number): void;
  /** Sets whether the spam filter answers; never called where there is none. */
  setSpamFilterUp(isUp: boolean): void;
  /** Sets whether DNS does not answer, so that mail is accepted unchecked. */
  setChecksOff(isOff: boolean): void;
}

export function addMailMetrics(registry: Registry): MailMetrics {
  const registers = [registry];
  const recipients = new Counter({
    name: 'postroom_recipients_total',
    help: 'Recipients of inbound messages, by what became of them.',
    labelNames: ['result'] as const,
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
    help: 'From a message that was read and checked until it was stored, of those that were accepted.',
    buckets: [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 30],
    registers,
  });
  const off = new Gauge({
    name: 'postroom_sender_checks_off',
    help: '1 while DNS does not answer and mail is accepted unchecked, else 0.',
    registers,
  });
  return {
    mailTraffic: addMailTraffic(registry),
    dnsQuestions: addDnsQuestions(registry),
    countRecipient: (result) => recipients.inc({ result }),
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

function addDnsQuestions(registry: Registry): MailMetrics['dnsQuestions'] {
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
  return (purpose) => (outcome, ms) => {
    questions.inc({ purpose, outcome });
    if (ms !== undefined) latency.observe({ purpose }, ms / 1000);
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
    help: 'Whether the spam filter answers: 1, or 0 where mail is accepted without it.',
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

const COMMANDS = new Set(
  'HELO EHLO LHLO AUTH MAIL RCPT DATA STARTTLS RSET NOOP HELP VRFY QUIT'.split(' '),
);

function addMailTraffic(registry: Registry): MailMetrics['mailTraffic'] {
  const registers = [registry];
  const open = new Gauge({
    name: 'postroom_smtp_connections',
    help: 'Open connections for mail, by protocol.',
    labelNames: ['protocol'] as const,
    registers,
  });
  const connections = new Counter({
    name: 'postroom_smtp_connections_total',
    help: 'Connections for mail that were accepted, by protocol.',
    labelNames: ['protocol'] as const,
    registers,
  });
  const commands = new Counter({
    name: 'postroom_smtp_commands_total',
    help: 'Commands of clients, by protocol and verb.',
    labelNames: ['protocol', 'command'] as const,
    registers,
  });
  const refusals = new Counter({
    name: 'postroom_smtp_refusals_total',
    help: 'Recipients, messages and connections that were refused or deferred, by reason.',
    labelNames: ['protocol', 'result', 'reason'] as const,
    registers,
  });
  return (protocol) => ({
    connected() {
      connections.inc({ protocol });
      open.inc({ protocol });
    },
    disconnected: () => open.dec({ protocol }),
    command: (verb) => commands.inc({ protocol, command: COMMANDS.has(verb) ? verb : 'other' }),
    refused(code) {
      const result = answerOf(code).smtp.code < 500 ? 'temporary' : 'permanent';
      refusals.inc({ protocol, result, reason: code });
    },
  });
}

/** `GET /v2/operator/attention`: what needs an operator now. */
import { Type } from 'typebox';
import { Instant, Integer, isoTime, OneOf, present, type RouteGroup, Text } from '../api/api.ts';
import { type AttentionParts, byUrgency, checkAll, LEVELS } from './attention.ts';
import { ADVICE } from './attention-advice.ts';

const Name = Text('Name of the check.', 'receivers_failing');
const LevelName = OneOf(
  LEVELS,
  '`critical`: mail is late or not taken now; `warning`: it soon may be; `note`: good to know.',
);

const FindingBody = Type.Object(
  {
    name: Name,
    level: LevelName,
    text: Text(
      'What, how many, and what follows.',
      '336 deliveries wait for https://receiver.example: 500 Internal Server Error.',
    ),
    advice: Text('What to do about it.', ADVICE.receivers_failing),
    count: Integer('How many.', 1),
    since: Type.Optional(Instant()),
    link: Text('Where the console shows it, below `/console`.', '/queue'),
  },
  { title: 'Finding', description: 'Something that needs an operator.' },
);

const CountsBody = Type.Object(
  {
    waiting: Type.Optional(Integer('Deliveries that are queued or held.', 465)),
    cannot_send: Type.Optional(Integer('Active domains that cannot send.', 3)),
  },
  { description: 'What the menu of the console shows; left out where it could not be counted.' },
);

const AttentionBody = Type.Object({
  checked_at: Instant(),
  counts: CountsBody,
  items: Type.Array(FindingBody, { description: 'The most urgent first.' }),
  checks: Type.Array(
    Type.Object({
      name: Name,
      level: LevelName,
      state: OneOf(
        ['ok', 'found', 'unknown'],
        '`unknown`: the check failed or took too long, so it says nothing.',
      ),
    }),
    { description: 'All checks, with what each came to.' },
  ),
});

/** As a client gets it. */
export type Attention = Type.Static<typeof AttentionBody>;

/** What a gauge has in all; undefined where it cannot be read: the checks are needed most then. */
function sumOf({ readGauge }: AttentionParts, name: string): Promise<number | undefined> {
  return readGauge(name).then(
    (values) => values.reduce((total, { value }) => total + value, 0),
    () => undefined,
  );
}

export function attentionRoutes(parts: AttentionParts): RouteGroup {
  return (app) => {
    app.get('/v2/operator/attention', {
      schema: {
        summary: 'Read what needs somebody now',
        description:
          'Checks the service as it is now: its nodes, disk, queue, domains, senders, mailboxes, certificate, and what it needs (Redis, the bucket, DNS, Rspamd). Disk, certificate and what it needs are those of the node that answers.',
        operationId: 'getAttention',
        response: { 200: AttentionBody },
      },
      handler: async () => {
        const [checked, waiting, cannotSend] = await Promise.all([
          checkAll(parts),
          sumOf(parts, 'postroom_queue_depth'),
          sumOf(parts, 'postroom_domains_cannot_send'),
        ]);
        const found = checked.toSorted(byUrgency).flatMap(({ rule, finding }) => {
          if (!finding) return [];
          const { since, ...about } = finding;
          const { name, level } = rule;
          const advice = ADVICE[name];
          return [{ name, level, ...about, advice, ...present({ since: isoTime(since) }) }];
        });
        return {
          checked_at: isoTime(parts.now()),
          counts: present({ waiting, cannot_send: cannotSend }),
          items: found,
          checks: checked.map(({ rule: { name, level }, state }) => ({ name, level, state })),
        };
      },
    });
  };
}

/**
 * Shapes that several routes of /v2 share.
 */
import type { Readable } from 'node:stream';
import { type TNumberOptions, type TSchema, type TStringOptions, Type } from 'typebox';
import type { IdPage } from '../../platform/database/database.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import type { Domain } from '../../tenants/domains/domains.ts';

/* Members of bodies and answers: what each is, an example, and its limits. */

export const Text = (description: string, example: string, limits: TStringOptions = {}) =>
  Type.String({ ...limits, description, examples: [example] });

export const Integer = (description: string, example: number, limits: TNumberOptions = {}) =>
  Type.Integer({ ...limits, description, examples: [example] });

export const Flag = (description: string) => Type.Boolean({ description, examples: [true] });

/** One of some words. */
export const OneOf = <const Words extends string[]>(
  words: readonly [...Words],
  description?: string,
  example: Words[number] | undefined = words[0],
) =>
  Type.Enum(words, {
    type: 'string',
    ...(description !== undefined && { description }),
    examples: [example],
  });

/** RFC 3339, as {@link isoTime} writes it. */
export const Instant = (description?: string, example = '2026-01-31T12:00:00.000Z') =>
  Type.String({
    format: 'date-time',
    ...(description !== undefined && { description }),
    examples: [example],
  });

/** What `readInstant` reads with `takesDate`: a bound of a search or a list. */
export const timeBound = (description: string) =>
  Type.Optional(Type.String({ maxLength: 40, description, examples: ['2026-01-31'] }));

/** Describes an answer whose JSON the route writes itself, as text or as a stream of text. */
export function writtenHere(schema: TSchema) {
  return Type.Unsafe<string | Buffer | Readable>(schema);
}

/** Streams are not serialized: this only describes them. */
export const Bytes = Type.Unsafe<Readable>({ type: 'string', format: 'binary' });

/** The user whose domains and accounts a call is about. */
export const UserId = Text('The user of your product who owns everything in this call.', 'demo', {
  minLength: 1,
  maxLength: 255,
});

export const DomainName = Text('Domain name; capitals and IDN are fine.', 'acme.test');

/** Ids have no limits here: an impossible one is answered like an unknown one. */
export const RecordId = Integer('Given by the server.', 1);

export const UserQuery = Type.Object({ user_id: UserId });

/** The note beside a password. */
export const SAVE_PASSWORD = 'Save this password now: it is not shown again.';

/** The contract's Domain, with additions. */
export const DomainBody = Type.Object(
  {
    id: RecordId,
    domain: DomainName,
    status: OneOf(['pending', 'active']),
    organization_id: Type.Optional(Text('As it was given at the claim.', 'org-1')),
    created_at: Instant(),
    verified_at: Type.Optional(Instant('When it last became active.', '2026-01-31T12:05:00.000Z')),
  },
  {
    title: 'Domain',
    description: 'A claim of a user on a domain name.',
    examples: [
      {
        id: 1,
        domain: 'acme.test',
        status: 'pending',
        organization_id: 'org-1',
        created_at: '2026-01-31T12:00:00.000Z',
      },
    ],
  },
);

const writeClaim = writerOf(DomainBody);

export function writeDomain(domain: Domain): Type.Static<typeof DomainBody> {
  return writeClaim({ ...domain, domain: domain.name });
}

/** Marks a member that has another name now: it stays for the clients of a release. */
export function replaced(by: string): { readonly deprecated: true; readonly description: string } {
  return { deprecated: true, description: `Replaced by \`${by}\`; goes away after 0.4.` };
}

/** An instant in milliseconds since 1970 in the form of RFC 3339. */
export function isoTime(instant: number): string;
export function isoTime(instant: number | undefined): string | undefined;
export function isoTime(instant: number | undefined): string | undefined {
  return instant === undefined ? undefined : new Date(instant).toISOString();
}

/** The members of an answer that have a value: the others are left out of it. */
export function present<Members extends object>(members: Members) {
  const found = Object.entries(members).filter(([, value]) => value != null);
  // Only members were left out.
  return Object.fromEntries(found) as { [Name in keyof Members]?: NonNullable<Members[Name]> };
}

/** Our own name of a member: `userId` for `user_id`. */
type OwnName<Name> = Name extends `${infer First}_${infer Rest}`
  ? `${First}${Capitalize<OwnName<Rest>>}`
  : Name;

/** The value that a member is written from. */
type Source<Name, Value> = Name extends `${string}_at` | `${string}since` | 'at'
  ? EpochMs
  : Value extends readonly (infer Item)[]
    ? readonly Item[]
    : Value;

type OptionalName<Answer> = {
  [Name in keyof Answer]-?: object extends Pick<Answer, Name> ? Name : never;
}[keyof Answer];

/** What an answer is written from. */
type Sources<Answer> = {
  readonly [Name in Exclude<keyof Answer, OptionalName<Answer>> as OwnName<Name> & string]: Source<
    Name,
    Answer[Name]
  >;
} & {
  readonly [Name in OptionalName<Answer> as OwnName<Name> & string]?:
    | Source<Name, NonNullable<Answer[Name]>>
    | undefined;
};

/**
 * Writes answers of a shape from what has its members by our own names. Members that have no value are left out, and
 * so is what the shape does not have.
 */
export function writerOf<Schema extends Type.TObject>(
  schema: Schema,
): (sources: Sources<Type.Static<Schema>>) => Type.Static<Schema> {
  const members = Object.entries(schema.properties).map(([name, member]) => ({
    name,
    own: name.replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase()),
    isInstant: 'format' in member && member.format === 'date-time',
  }));
  return (sources) => {
    const values: Readonly<Record<string, unknown>> = sources;
    const written: Record<string, unknown> = {};
    for (const { name, own, isInstant } of members) {
      const value = values[own];
      if (value != null) written[name] = isInstant ? isoTime(Number(value)) : value;
    }
    // The types of the sources are made of those of the schema.
    return written as Type.Static<Schema>;
  };
}

/** Fields of a query that asks for one page of a listing. */
export const pageFields = {
  limit: Type.Optional(
    Integer('The most items of a page; 50 when left out.', 50, { minimum: 1, maximum: 1000 }),
  ),
  offset: Type.Optional(
    Integer('The number of items to skip; 0 when left out.', 0, {
      minimum: 0,
      maximum: Number.MAX_SAFE_INTEGER,
    }),
  ),
  after: Type.Optional(
    Integer(
      'Only items that come after this id, the last one of the page before. Unlike with `offset`, items that are added or removed meanwhile do not shift the pages.',
      50,
      { minimum: 0, maximum: Number.MAX_SAFE_INTEGER },
    ),
  ),
  order: Type.Optional(
    OneOf(
      ['oldest', 'newest'],
      'Whether the oldest or the newest items come first; the oldest when left out.',
      'newest',
    ),
  ),
};

/** The most items that a listing counts. */
const TOTAL_MAX = 10_000;

/** The fields of its page that a listing returns. */
export const pageEcho = {
  limit: Integer('The limit that was used.', 50),
  offset: Integer('The offset that was used.', 0),
  total: Type.Optional(
    Integer(
      'How many items all pages have. Left out above 10,000, and where counting would cost something.',
      1,
    ),
  ),
};

const LIMIT_DEFAULT = 50;

interface PageQuery {
  readonly limit?: number;
  readonly offset?: number;
  readonly after?: number;
  readonly order?: 'oldest' | 'newest';
}

/** The page that a query asks for. */
export function pageOf({ limit = LIMIT_DEFAULT, offset = 0, after, order }: PageQuery): IdPage {
  return { limit, offset, after, isNewestFirst: order === 'newest' };
}

/**
 * An answer with a page of a listing.
 *
 * @param count counts all items in an index, up to a number that stands for as many or more; undefined where none has them
 */
export async function answerPage<Item>(
  items: Item[],
  { limit, offset, after }: IdPage,
  count: (most: number) => Promise<number | undefined>,
): Promise<{ items: Item[]; limit: number; offset: number; total?: number }> {
  const isLast = items.length < limit && (items.length > 0 || offset === 0);
  const total = isLast && after === undefined ? offset + items.length : await count(TOTAL_MAX + 1);
  return { items, limit, offset, ...(total !== undefined && total <= TOTAL_MAX && { total }) };
}

/** Commands that show a list of the operator's API, or change one item. */
import { Command, InvalidArgumentError } from 'commander';
import { readConfig } from '../config/config.ts';
import { CommandFailed, clean, formatBytes, openProgress, report, table } from './command.ts';
import { openClient, type ServiceClient } from './service-client.ts';

/** An item of a list, or an answer, as OpenAPI describes it. */
export type Item = Readonly<Record<string, unknown>>;

interface Answer {
  readonly items: readonly Item[];
  readonly cursor?: string;
}

export interface List {
  readonly name: string;
  readonly description: string;
  /** Below /v2/operator. */
  readonly path: string;
  /** Parameters of the query by their names in the API, and what they mean. */
  readonly filters: Readonly<Record<string, string>>;
  /** Parameters that it always has. */
  readonly fixed?: Readonly<Record<string, string>>;
  /** The shown members of an item, by name (`counts.pending`), with spaces between. */
  readonly columns: string;
}

/** The options of {@link onService}, and those of the command itself. */
export interface ServiceArguments extends Readonly<Record<string, unknown>> {
  readonly url?: string;
  readonly json?: true;
}

/** The most items of one page of the API. */
const PAGE_MAX = '200';

/** The client that commands of the operator's API have, and their common options. */
export function onService(command: Command): Command {
  return command
    .option('--url <url>', 'URL of the service; default: from HOST and PORT')
    .option('--json', 'prints the result as JSON');
}

export function connect(url: string | undefined): Promise<ServiceClient> {
  return openClient(readConfig(process.env), url);
}

export function listCommand(list: List): Command {
  const command = new Command(list.name).description(list.description);
  addFilters(command, list.filters)
    .option('--limit <number>', 'maximum number of items', '50')
    .option('--cursor <cursor>', 'continues where an earlier list ended')
    .option('--all', 'shows all items');
  return onService(command).action((given: ServiceArguments) => showList(list, given));
}

/** An option for each parameter: `--user-id` is `user_id`. */
export function addFilters(command: Command, filters: Readonly<Record<string, string>>): Command {
  for (const [name, description] of Object.entries(filters)) {
    command.option(`--${name.replaceAll('_', '-')} <${name.replaceAll('_', '-')}>`, description);
  }
  return command;
}

/** The parameters that were given, by their names in the API. */
export function givenOf(
  filters: Readonly<Record<string, string>>,
  given: Readonly<Record<string, unknown>>,
): Record<string, string> {
  const values: Record<string, string> = {};
  for (const name of Object.keys(filters)) {
    const value = given[name.replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase())];
    if (typeof value === 'string') values[name] = value;
  }
  return values;
}

async function showList(list: List, given: ServiceArguments): Promise<void> {
  const client = await connect(given.url);
  const show = openProgress();
  const paging = { limit: '', cursor: '' };
  const { limit = '', ...asked } = givenOf({ ...list.filters, ...paging }, given);
  const items: Item[] = [];
  let { cursor } = asked;
  for (;;) {
    const page = {
      ...asked,
      ...list.fixed,
      limit: given.all ? PAGE_MAX : limit,
      ...(cursor && { cursor }),
    };
    const path = `/v2/operator/${list.path}?${new URLSearchParams(page)}`;
    const answer = await client.call<Answer>('GET', path);
    items.push(...answer.items);
    cursor = answer.cursor;
    if (!given.all || !cursor) break;
    show(`${items.length} items`);
  }
  show();
  const more =
    cursor === undefined ? '' : `\nThere are more items: use --all or --cursor ${cursor}`;
  const text = `${listItems(items, list.columns)}${more}`;
  report(given.json, { ok: true, items, ...(cursor && { cursor }) }, text);
}

/** The items of a list as a table. @param columns their names, with spaces between */
export function listItems(items: readonly Item[], columns: string): string {
  return items.length === 0 ? 'No items found.' : tableOf(items, columns.split(' '));
}

function cellOf(item: Item, column: string): string | undefined {
  let value: unknown = item;
  for (const name of column.split('.')) value = isItem(value) ? value[name] : undefined;
  if (value === undefined || value === null) return undefined;
  if (value === 0 && column === 'quota_bytes') return 'none';
  if (typeof value === 'number' && /(?:^|_)bytes/.test(column)) return formatBytes(value);
  if (isError(value)) return [value.status ?? [], value.text].flat().join(' ');
  if (isTexts(value)) return value.length === 0 ? undefined : value.join(', ');
  if (!isItem(value)) return String(value);
  const members = Object.keys(value).map((name) => `${name} ${cellOf(value, name) ?? '-'}`);
  return Array.isArray(value) ? JSON.stringify(value) : members.join(', ');
}

function isTexts(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((one) => typeof one === 'string');
}

/** What a receiver answered. */
function isError(value: unknown): value is { readonly status?: number; readonly text: string } {
  return isItem(value) && typeof value.text === 'string';
}

function isItem(value: unknown): value is Item {
  return typeof value === 'object' && value !== null;
}

/** The API still has these beside their new names. */
const formerNames = ['account_id', 'email', 'records', 'route'];

/** All of an answer: its members one a line, then each list of items as a table. */
export function describeItem(item: object): string {
  const members = Object.entries(item).filter(([name]) => !formerNames.includes(name));
  const lists = members.filter(([, value]) => isList(value));
  const facts = members.filter(([, value]) => !isList(value));
  const width = Math.max(...facts.map(([name]) => name.length));
  const lines = facts.map(
    ([name, value]) => `${name.padEnd(width)}  ${clean(cellOf({ [name]: value }, name) ?? '-')}`,
  );
  return [lines.join('\n'), ...lists.map(([name, items]) => `${name}:\n${tableOf(items)}`)]
    .filter((part) => part !== '')
    .join('\n\n');
}

function isList(value: unknown): boolean {
  return Array.isArray(value) && value.length > 0 && value.every(isItem);
}

function tableOf(
  items: readonly Item[],
  columns = [...new Set(items.flatMap((item) => Object.keys(item)))],
): string {
  return table(
    columns,
    items.map((item) => columns.map((column) => cellOf(item, column))),
  );
}

/** Shows one answer. @returns it */
export async function showItem<Answer extends object>(
  path: string,
  { url, json }: ServiceArguments,
  describe: (answer: Answer) => string = describeItem,
): Promise<Answer> {
  const client = await connect(url);
  const answer = await client.call<Answer>('GET', `/v2/operator/${path}`);
  report(json, { ok: true, ...answer }, describe(answer));
  return answer;
}

/** A command that changes one thing by its number. */
export function change(name: string, path: string, description: string): Command {
  return onService(new Command(name))
    .description(description)
    .argument('<id>', 'its number, as the list shows it', readId)
    .action((id: number, given: ServiceArguments) => changeOne(path, { id }, given));
}

export function readId(text: string): number {
  const id = Number(text);
  if (!Number.isSafeInteger(id)) {
    throw new InvalidArgumentError('It is a number, as the list shows it.');
  }
  return id;
}

export async function changeOne(
  path: string,
  body: object,
  { url, json }: ServiceArguments,
): Promise<void> {
  const client = await connect(url);
  const changed = await client.call<Item>('POST', `/v2/operator/${path}`, body);
  report(json, { ok: true, ...changed }, describeItem(changed));
}

/** Asks at a terminal for a word before something that cannot be undone; elsewhere the option is required. */
export async function confirm(question: string, word: string, option: string): Promise<void> {
  if (!process.stdin.isTTY || !process.stderr.isTTY) {
    throw new CommandFailed(`${question} Nothing was done. To confirm, add ${option}`);
  }
  const { createInterface } = await import('node:readline/promises');
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const said = await terminal.question(`${question} Type ${word} to confirm: `);
    if (said.trim() !== word) throw new CommandFailed('Nothing was done.');
  } finally {
    terminal.close();
  }
}

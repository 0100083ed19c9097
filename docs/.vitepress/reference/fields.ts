/**
 * Members of a body or a query as rows of a table.
 */
import { type Description, type Parameter, refName, resolve, type Schema } from './openapi.ts';

/** Where the table of a named shape is. */
export type ShapeLink = (name: string) => string;

interface Row {
  readonly name: string;
  readonly schema: Schema;
  readonly required: boolean;
  readonly description?: string | undefined;
}

/** Rows for the members of an object; those of unnamed objects within follow as `a.b`, `a[].b`. */
export function bodyRows(description: Description, schema: Schema, prefix = ''): Row[] {
  const { properties = {}, required = [] } = resolve(description, schema);
  return Object.entries(properties).flatMap(([name, member]) => {
    const row = {
      name: prefix + name,
      schema: member,
      required: required.includes(name),
      description: member.description,
    };
    return [row, ...rowsWithin(description, row)];
  });
}

function rowsWithin(description: Description, { name, schema }: Row): Row[] {
  const inner = schema.type === 'array' ? schema.items : schema;
  if (!inner || refName(inner) !== undefined || !inner.properties) return [];
  return bodyRows(description, inner, `${name}${schema.type === 'array' ? '[]' : ''}.`);
}

export function parameterRows(parameters: readonly Parameter[]): Row[] {
  return parameters.map(({ name, schema, required, description }) => ({
    name,
    schema,
    required: required ?? false,
    description: description ?? schema.description,
  }));
}

/** A list of fields as HTML that reads well at any width: name, type, whether it is needed, text. */
export function writeFields(rows: readonly Row[], link: ShapeLink, showRequired: boolean): string {
  const items = rows.map(({ name, schema, required, description }) => {
    const need = showRequired && required ? ' <span class="needed">required</span>' : '';
    const text = [sentence(description), limitsOf(schema)].filter(Boolean).join(' ');
    const head = `<dt><code>${name}</code> <span class="type">${typeOf(schema, link)}</span>${need}</dt>`;
    return `${head}\n<dd>${text ? inline(text) : ''}</dd>`;
  });
  return `<dl class="fields">\n${items.join('\n')}\n</dl>`;
}

function sentence(text: string | undefined): string {
  const trimmed = text?.trim() ?? '';
  return trimmed === '' || /[.!?]$/.test(trimmed) ? trimmed : `${trimmed}.`;
}

function typeOf(schema: Schema, link: ShapeLink): string {
  const name = refName(schema);
  if (name !== undefined) return `<a href="${link(name)}">${name}</a>`;
  if (schema.type === 'array') return `array of ${typeOf(schema.items ?? {}, link)}`;
  if (schema.format === 'date-time') return 'date-time';
  if (schema.type) return [schema.type].flat().join(' or ');
  return schema.enum ? 'string' : 'any';
}

function limitsOf(schema: Schema): string {
  const {
    enum: values,
    minimum,
    maximum,
    maxLength,
    minLength,
  } = schema.items?.enum ? schema.items : schema;
  if (values) return `One of ${values.map((value) => `\`${value}\``).join(', ')}.`;
  if (maximum === Number.MAX_SAFE_INTEGER) return `At least ${minimum}.`;
  if (minimum !== undefined && maximum !== undefined) return `${minimum} to ${maximum}.`;
  if (minLength && maxLength) return `${minLength} to ${maxLength} characters.`;
  if (maxLength) return `At most ${maxLength} characters.`;
  return '';
}

/** Code spans in text that goes into HTML. */
function inline(text: string): string {
  const escaped = text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
  return escaped.replace(/`([^`]+)`/g, '<code v-pre>$1</code>');
}

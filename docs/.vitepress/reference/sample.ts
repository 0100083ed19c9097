/**
 * Values made from a schema and the examples in it.
 */
import { type Description, type Media, resolve, type Schema } from './openapi.ts';

/** The example of a body: the one that is given, else one made of the examples of its members. */
export function sampleOf(description: Description, media: Media): unknown {
  return media.example ?? sample(description, media.schema ?? {});
}

function sample(description: Description, schema: Schema): unknown {
  const given = schema.examples ?? resolve(description, schema).examples;
  if (given?.length) return given[0];
  const {
    type,
    properties = {},
    items,
    format,
    enum: values,
    const: only,
  } = resolve(description, schema);
  if (only !== undefined) return only;
  if (values?.length) return values[0];
  if (type === 'object') {
    const members = Object.entries(properties);
    return Object.fromEntries(members.map(([name, member]) => [name, sample(description, member)]));
  }
  if (type === 'array') return items ? [sample(description, items)] : [];
  if (type === 'boolean') return true;
  if (type === 'integer' || type === 'number') return 1;
  if (format === 'date-time') return '2026-01-31T12:00:00.000Z';
  return 'string';
}

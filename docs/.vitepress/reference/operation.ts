/**
 * One operation as markdown: what it takes, what it answers, how it fails, an example of each, and
 * the form to try it.
 */
import {
  bodyOf,
  credentialHeader,
  credentialOf,
  exampleOf,
  writeBody,
  writeSamples,
} from './code-samples.ts';
import { bodyRows, parameterRows, type ShapeLink, writeFields } from './fields.ts';
import type { Answer, Description, Endpoint } from './openapi.ts';
import { sampleOf } from './sample.ts';

/** What the form needs to know. */
export interface TryIt {
  readonly method: string;
  readonly path: string;
  readonly credential?: string;
  readonly parameters: readonly { name: string; in: string; required: boolean; example: string }[];
  readonly body?: string;
  readonly contentType?: string;
}

export function writeOperation(
  description: Description,
  endpoint: Endpoint,
  link: ShapeLink,
): string {
  const { operationId: id, method, path } = endpoint;
  return `## ${endpoint.summary} {#${id}}

<div class="operation">
<div class="about">

<p class="endpoint"><span class="method ${method.toLowerCase()}">${method}</span> <code v-pre>${path}</code></p>

${endpoint.description ?? ''}

${writeCredential(endpoint)}

${writeRequest(description, endpoint, link)}

${writeSuccesses(description, endpoint, link)}

### Errors {#${id}-errors}

${writeErrors(endpoint)}

</div>
<div class="examples">

${writeRequestExample(description, endpoint)}

${writeForm(description, endpoint)}

${writeAnswerExamples(description, endpoint)}

</div>
</div>
`;
}

function writeCredential(endpoint: Endpoint): string {
  const { header, scheme } = credentialHeader(endpoint) ?? {};
  if (!header) return '<p class="credential">Needs no credential.</p>';
  const shown = scheme ? `${header}: ${scheme}&lt;token&gt;` : header;
  return `<p class="credential">Credential: <code>${shown}</code></p>`;
}

function writeRequest(description: Description, endpoint: Endpoint, link: ShapeLink): string {
  const sections: string[] = [];
  for (const place of ['path', 'query'] as const) {
    const parameters = (endpoint.parameters ?? []).filter((parameter) => parameter.in === place);
    if (parameters.length === 0) continue;
    const title = place === 'path' ? 'Path' : 'Query';
    sections.push(
      `### ${title} {#${endpoint.operationId}-${place}}\n\n${writeFields(parameterRows(parameters), link, true)}`,
    );
  }
  const [type, media] = bodyOf(endpoint) ?? [];
  if (type && media?.schema) {
    const rows = bodyRows(description, media.schema);
    const text = rows.length > 0 ? writeFields(rows, link, true) : (media.schema.description ?? '');
    sections.push(`### Body {#${endpoint.operationId}-body}\n\n\`${type}\`\n\n${text}`);
  }
  return sections.join('\n\n');
}

function successesOf({ responses }: Endpoint): [status: string, answer: Answer][] {
  return Object.entries(responses).filter(([status]) => Number(status) < 400);
}

function writeSuccesses(description: Description, endpoint: Endpoint, link: ShapeLink): string {
  const parts = successesOf(endpoint).map(([status, answer]) => {
    const title = `### Answer ${status} {#${endpoint.operationId}-${status}}`;
    const media = Object.entries(answer.content ?? {}).map(([type, { schema = {} }]) => {
      const rows = bodyRows(description, schema);
      const name = schema.$ref?.split('/').at(-1);
      const shape = name ? `\`${type}\`: <a href="${link(name)}">${name}</a>` : `\`${type}\``;
      const fields = name || rows.length === 0 ? '' : `\n\n${writeFields(rows, link, false)}`;
      return `${shape}${fields || (schema.description ? `\n\n${schema.description}` : '')}`;
    });
    return [title, ...(media.length > 0 ? media : [answer.description])].join('\n\n');
  });
  return parts.join('\n\n');
}

function writeErrors({ responses }: Endpoint): string {
  const rows = Object.entries(responses)
    .filter(([status]) => Number(status) >= 400)
    .flatMap(([status, { description }]) =>
      [...description.matchAll(/`([a-z_]+)`: ([^.]+)\./g)].map(
        ([, code, title]) => `| ${status} | [\`${code}\`](/reference/errors#${code}) | ${title} |`,
      ),
    );
  return ['| Status | Code | |', '|---|---|---|', ...rows].join('\n');
}

function writeRequestExample(description: Description, endpoint: Endpoint): string {
  if (endpoint.path === '/ws') return '';
  return writeSamples(description, endpoint);
}

function writeAnswerExamples(description: Description, endpoint: Endpoint): string {
  const blocks: string[] = [];
  for (const [, { content = {} }] of successesOf(endpoint)) {
    const [type, media] = Object.entries(content)[0] ?? [];
    if (type !== 'application/json' || !media) continue;
    const value = sampleOf(description, media);
    if (Object.keys(Object(value)).length > 0) {
      blocks.push(`\`\`\`json\n${writeJson(value)}\n\`\`\``);
    }
  }
  return blocks.join('\n\n');
}

/** JSON with short arrays and objects on one line, as a person would write it. */
export function writeJson(value: unknown): string {
  return JSON.stringify(value, null, 2).replace(
    /([[{])\n\s+([^[\]{}]{0,60}?)\n\s+[\]}]/g,
    (_whole, open: string, inner: string) => {
      const line = inner.replace(/\n\s+/g, ' ');
      return open === '{' ? `{ ${line} }` : `[${line}]`;
    },
  );
}

function writeForm(description: Description, endpoint: Endpoint): string {
  // What is no call of one answer cannot be tried in a form.
  if (endpoint.path === '/ws') return '';
  const [type, media] = bodyOf(endpoint) ?? [];
  const credential = credentialOf(endpoint);
  const form: TryIt = {
    method: endpoint.method,
    path: endpoint.path,
    // The browser sends its cookie by itself.
    ...(credential && !['cookie', 'console'].includes(credential) && { credential }),
    parameters: (endpoint.parameters ?? []).map((parameter) => ({
      name: parameter.name,
      in: parameter.in,
      required: parameter.required ?? false,
      example: parameter.required ? exampleOf(parameter) : '',
    })),
    ...(type && media && { contentType: type, body: writeBody(description, media) }),
  };
  const json = JSON.stringify(form).replaceAll('&', '&amp;').replaceAll("'", '&#39;');
  return `<TryIt operation='${json}' />`;
}

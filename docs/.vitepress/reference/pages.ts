/**
 * The pages of the API reference, made of `docs/openapi.json`: one for each tag, and the overview.
 * They are written as files, since the search looks at files alone.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { bodyRows, parameterRows, writeFields } from './fields.ts';
import {
  type Description,
  type Endpoint,
  listEndpoints,
  type Operation,
  readDescription,
  refName,
} from './openapi.ts';
import { writeJson, writeOperation } from './operation.ts';
import { sampleOf } from './sample.ts';

/** Tags without a page: these pages themselves. */
const unlisted = ['Documentation'];

export interface ReferencePage {
  /** Below `docs/`. */
  readonly file: string;
  readonly content: string;
}

const nameOf = (tag: string) => tag.toLowerCase().replaceAll(' ', '-');

function shownTags(description: Description) {
  return description.tags.filter(({ name }) => !unlisted.includes(name));
}

const endpointsOf = (description: Description, tag: string): Endpoint[] =>
  listEndpoints(description).filter(({ tags }) => tags.includes(tag));

const webhooksOf = (description: Description, tag: string) =>
  Object.entries(description.webhooks).filter(([, { post }]) => post.tags.includes(tag));

/** The titles and paths of the pages with their operations, for the sidebar. */
export function referenceLinks() {
  const description = readDescription();
  return shownTags(description).map(({ name }) => {
    const link = `/reference/api/${nameOf(name)}`;
    const items = endpointsOf(description, name).map(({ summary, operationId }) => ({
      text: summary,
      link: `${link}#${operationId}`,
    }));
    return { text: name, link, collapsed: true, items };
  });
}

/** Writes the pages below `docs/`, those that changed. */
export function writeReference(docs: string): void {
  for (const { file, content } of [overviewPage(), ...tagPages()]) {
    const path = join(docs, file);
    mkdirSync(dirname(path), { recursive: true });
    if (readIfThere(path) !== content) writeFileSync(path, content);
  }
}

function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}

/** `/reference/api`. */
function overviewPage(): ReferencePage {
  const description = readDescription();
  const sections = shownTags(description).map(({ name, description: text }) => {
    const rows = endpointsOf(description, name).map(
      ({ method, path, summary, operationId }) =>
        `| <span class="method ${method.toLowerCase()}">${method}</span> | [\`${path}\`](/reference/api/${nameOf(name)}#${operationId}) | ${summary} |`,
    );
    return `## ${name} {#${nameOf(name)}}\n\n${text}\n\n${['| | Path | |', '|---|---|---|', ...rows].join('\n')}`;
  });
  const error = description.components.schemas.Problem ?? {};
  return {
    file: 'reference/api.md',
    content: `---
description: Every endpoint with its credential, and the body of errors.
pageClass: api-page
---

# API reference

${description.info.description}

This reference is made of the [OpenAPI 3.1 description](/openapi.json), which is made of the schemas
that requests are checked with. **Try it** calls this server, with the credential you enter; it stays
in the page and is gone when you close it.

## Credentials {#credentials}

| Paths | Credential |
|---|---|
| \`/v2/*\` | \`x-api-key: <API key>\` |
| \`/mail/*\`, \`/ws\` | \`Authorization: Bearer <token>\`, from [\`POST /mail/token\`](/reference/api/mail#login) or [\`POST /v2/email-accounts/{id}/token\`](/reference/api/email-accounts#issueToken) |
| \`/hooks/mailserver\` | \`x-mailserver-signature: <hex HMAC-SHA256 of the body>\` |

${sections.join('\n\n')}

## Problem {#Problem}

${error.description ?? ''} Every code is explained in [Errors](/reference/errors).

${writeFields(
  bodyRows(description, error).map((row) =>
    row.name === 'code' ? { ...row, schema: { type: 'string' } } : row,
  ),
  shapeLink(homesOf(description), undefined),
  false,
)}

\`\`\`json
${writeJson(sampleOf(description, { schema: error }))}
\`\`\`
`,
  };
}

/** A page for each tag, at `/reference/api/<name>`. */
function tagPages(): ReferencePage[] {
  const description = readDescription();
  const homes = homesOf(description);
  return shownTags(description).map((tag) => {
    const endpoints = endpointsOf(description, tag.name);
    const link = shapeLink(homes, tag.name);
    const operations = endpoints.map((endpoint) => writeOperation(description, endpoint, link));
    const shown = [...homes.keys()].filter((name) => homes.get(name) === tag.name);
    const shapes = shown.map((name) => {
      const schema = description.components.schemas[name] ?? {};
      return `### ${name} {#${name}}

${schema.description ?? ''}

<div class="operation">
<div class="about">

${writeFields(bodyRows(description, schema), link, false)}

</div>
<div class="examples">

\`\`\`json
${writeJson(sampleOf(description, { schema }))}
\`\`\`

</div>
</div>
`;
    });
    const told = webhooksOf(description, tag.name).map(
      ([type, { post }]) => `## Told to you: ${type} {#${post.operationId}}

${post.description ?? ''}

${writeFields(parameterRows(post.parameters ?? []), link, true)}

The body is ${typeLink(post, link)}. [Receive webhooks](/guides/webhooks) shows how to check the signature.
`,
    );
    const objects = shapes.length > 0 ? `## Objects {#objects}\n\n${shapes.join('\n\n')}` : '';
    return {
      file: `reference/api/${nameOf(tag.name)}.md`,
      content: `---\ndescription: "${tag.description}"\npageClass: api-page\n---\n\n# ${tag.name}\n\n${tag.description}\n\n${[...operations, ...told].join('\n\n')}\n\n${objects}\n`,
    };
  });
}

/** The tag on whose page each shape is shown: the first whose operations mention it. */
function homesOf(description: Description): Map<string, string> {
  const homes = new Map<string, string>();
  for (const { name: tag } of shownTags(description)) {
    const collect = (value: unknown) => {
      for (const [, name = ''] of JSON.stringify(value).matchAll(
        /#\/components\/schemas\/(\w+)/g,
      )) {
        if (name.endsWith('Problem') || homes.has(name)) continue;
        homes.set(name, tag);
        collect(description.components.schemas[name]);
      }
    };
    collect(endpointsOf(description, tag));
    collect(webhooksOf(description, tag));
  }
  return homes;
}

/** The shape of an operation's body, as a link with its article. Links of Markdown get the path of the site by themselves. */
function typeLink({ requestBody }: Operation, link: (name: string) => string): string {
  const name = refName(requestBody?.content['application/json']?.schema ?? {}) ?? '';
  return `${/^[AEIOU]/.test(name) ? 'an' : 'a'} [${name}](${link(name).replace(/^\/docs(?=\/)/, '')})`;
}

function shapeLink(
  homes: ReadonlyMap<string, string>,
  tag: string | undefined,
): (name: string) => string {
  return (name) => {
    if (name === 'Problem') return '/docs/reference/api#Problem';
    const home = homes.get(name);
    if (home === undefined) throw new Error(`no page shows ${name}`);
    return home === tag ? `#${name}` : `/docs/reference/api/${nameOf(home)}#${name}`;
  };
}

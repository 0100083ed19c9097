import { tagPages } from '../../.vitepress/reference/pages.ts';

export default {
  paths: () => tagPages().map(({ name, content }) => ({ params: { tag: name }, content })),
};

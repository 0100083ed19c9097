import { overviewPage } from '../.vitepress/reference/pages.ts';

export default {
  paths() {
    const { name, content } = overviewPage();
    return [{ params: { overview: name }, content }];
  },
};

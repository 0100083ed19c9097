import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"@postroom/sdk/sqlite","description":"","frontmatter":{},"headers":[],"relativePath":"reference/sdk/sqlite.md","filePath":"reference/sdk/sqlite.md"}');
const _sfc_main = { name: "reference/sdk/sqlite.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="postroom-sdk-sqlite" tabindex="-1">@postroom/sdk/sqlite <a class="header-anchor" href="#postroom-sdk-sqlite" aria-label="Permalink to &quot;@postroom/sdk/sqlite&quot;">​</a></h1><div class="language-ts"><button title="Copy Code" class="copy"></button><span class="lang">ts</span><pre class="shiki postroom vp-code" tabindex="0"><code><span class="line"><span class="tok-keyword">import</span><span> { sqliteStore } </span><span class="tok-keyword">from</span><span class="tok-string-expression"> &#39;@postroom/sdk/sqlite&#39;</span><span>;</span></span></code></pre></div><table tabindex="0"><thead><tr><th></th><th></th></tr></thead><tbody><tr><td><a href="#sqliteStore"><code>sqliteStore</code></a></td><td>Opens the file, or makes it, readable by its owner alone.</td></tr></tbody></table><h2 id="sqliteStore" tabindex="-1">sqliteStore <a class="header-anchor" href="#sqliteStore" aria-label="Permalink to &quot;sqliteStore {#sqliteStore}&quot;">​</a></h2><p>Opens the file, or makes it, readable by its owner alone.</p><ul><li>Throws Error where Node is older than 22.13, or the file is not one of this store, or of a newer version of it</li></ul><div class="language-ts"><button title="Copy Code" class="copy"></button><span class="lang">ts</span><pre class="shiki postroom vp-code" tabindex="0"><code><span class="line"><span class="tok-keyword">function</span><span class="tok-function"> sqliteStore</span><span>(path</span><span class="tok-keyword">:</span><span class="tok-constant"> string</span><span>)</span><span class="tok-keyword">:</span><span class="tok-function"> Store</span><span>;</span></span></code></pre></div></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("reference/sdk/sqlite.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const sqlite = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  sqlite as default
};

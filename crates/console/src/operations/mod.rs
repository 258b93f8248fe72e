//! Packs, suites, keys, webhooks, sessions and settings of the host.

mod host;
mod keys;
mod packs;
mod sessions;
mod suites;
mod webhooks;

use crate::routes::Pages;
use touchstone_host::access::Scope;

/// Where the pages are.
const PACKS: &str = "/console/packs";
const KEYS: &str = "/console/keys";
const WEBHOOKS: &str = "/console/webhooks";
const SESSIONS: &str = "/console/sessions";

pub fn routes(pages: Pages) -> Pages {
    let pages = pages
        .page(PACKS, Scope::ManifestRead, packs::list)
        .page(
            "/console/packs/{name}/{version}",
            Scope::ManifestRead,
            packs::page,
        )
        .form(
            "/console/packs/{name}/{version}/remove",
            Scope::PacksInstall,
            packs::remove,
        )
        .page(
            "/console/suites/{suiteId}/{version}",
            Scope::ManifestRead,
            suites::page,
        )
        .form(
            "/console/suites/{suiteId}/{version}/remove",
            Scope::SuitesWrite,
            suites::remove,
        );
    let pages = pages
        .page(KEYS, Scope::KeysManage, keys::page)
        .form(KEYS, Scope::KeysManage, keys::create)
        .form(
            "/console/keys/{keyId}/rotate",
            Scope::KeysManage,
            keys::rotate,
        )
        .form(
            "/console/keys/{keyId}/revoke",
            Scope::KeysManage,
            keys::revoke,
        );
    pages
        .page(WEBHOOKS, Scope::WebhooksManage, webhooks::page)
        .form(WEBHOOKS, Scope::WebhooksManage, webhooks::register)
        .form(
            "/console/webhooks/{webhookId}/rotate",
            Scope::WebhooksManage,
            webhooks::rotate,
        )
        .form(
            "/console/webhooks/{webhookId}/remove",
            Scope::WebhooksManage,
            webhooks::remove,
        )
        .page(SESSIONS, None, sessions::page)
        .form("/console/sessions/end-others", None, sessions::end_others)
        .form("/console/sessions/{sessionId}/end", None, sessions::end)
        .page("/console/host", None, host::page)
}

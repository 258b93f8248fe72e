//! Packs, suites, keys, webhooks, sessions, settings of the host, and its cluster.

mod cluster;
mod host;
mod import;
mod keys;
mod notices;
mod packs;
mod sessions;
mod suites;
mod webhook;
mod webhooks;
mod work;

use crate::routes::Pages;
use touchstone_host::access::Scope;

/// Where the pages are.
const PACKS: &str = "/console/packs";
const KEYS: &str = "/console/keys";
const WEBHOOKS: &str = "/console/webhooks";
const NOTICES: &str = "/console/notices";
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
        .page("/console/suites/import", Scope::SuitesWrite, import::page)
        .upload("/console/suites/import", Scope::SuitesWrite, import::import)
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
    let pages = pages
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
        .page(
            "/console/webhooks/{webhookId}",
            Scope::WebhooksManage,
            webhook::page,
        )
        .form(
            "/console/webhooks/{webhookId}/deliveries/{number}/replay",
            Scope::WebhooksManage,
            webhook::replay,
        );
    notice_routes(pages)
        .page(SESSIONS, None, sessions::page)
        .form("/console/sessions/end-others", None, sessions::end_others)
        .form("/console/sessions/{sessionId}/end", None, sessions::end)
        .page("/console/host", None, host::page)
        .page("/console/cluster", Scope::MetricsRead, cluster::page)
}

fn notice_routes(pages: Pages) -> Pages {
    let scope = Scope::WebhooksManage;
    pages
        .page(NOTICES, scope, notices::list)
        .form(NOTICES, scope, notices::create)
        .page("/console/notices/{noticeId}", scope, notices::page)
        .form("/console/notices/{noticeId}/enable", scope, notices::enable)
        .form("/console/notices/{noticeId}/rotate", scope, notices::rotate)
        .form("/console/notices/{noticeId}/remove", scope, notices::remove)
        .form(
            "/console/notices/{noticeId}/deliveries/{deliveryId}/redeliver",
            scope,
            notices::redeliver,
        )
}

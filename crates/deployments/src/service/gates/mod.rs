//! The gates before production: which policy is in force, and which of its conditions a version
//! does not meet (RFC 0082 §E).

pub mod approvals;
pub mod condition;

use std::sync::Arc;

use serde::Serialize;

use crate::examination::{ExaminedCondition, examined};
use crate::promotion::{
    APPROVAL, Conditions, EVAL, PolicyScope, PromotionPolicy, Requirement, ScopedPolicy, in_force,
    naming_suite,
};
use crate::rules::{Channel, Placement};
pub use crate::service::gates::approvals::Approval;
use crate::service::gates::approvals::requirement;
pub use crate::service::gates::condition::{Condition, Undescribed, complete, read};
use crate::store;
use semver::Version;
use touchstone_host::access::Roles;
use touchstone_host::audit::{Decision, Outcome};
use touchstone_host::ports::clock::Clock;
use touchstone_host::service::access::Caller;
use touchstone_host::service::fault::{internal, undescribed};
use touchstone_host::store::database::Database;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::{AgentId, RunId, TenantId};
use touchstone_packs::service::installed::installed;
use touchstone_runs::rules::eval::attempts::AttemptIds;
use touchstone_runs::rules::eval::gate::{Candidate, GatePolicy};
use touchstone_runs::rules::eval::statistics::Evidence;
use touchstone_runs::rules::workflow::gate::GatePolicy as ApprovalPolicy;
use touchstone_runs::service::runs::Runs;
use touchstone_runs::store as run_store;

/// The result of evaluating a gate.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    pub allowed: bool,
    pub agent_id: AgentId,
    pub version: String,
    /// The channel, if one was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// The eval run that served as evidence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eval_run_id: Option<RunId>,
    /// Every attempt that was pooled with it; absent without an eval run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<AttemptIds>,
    /// Every unmet condition.
    pub unmet: Vec<Requirement>,
    /// Every condition, met or not.
    pub conditions: Vec<ExaminedCondition>,
    pub policy: PromotionPolicy,
    /// The scope the policy was set for; absent if the host's default applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_for: Option<PolicyScope>,
}

/// The result of evaluating evidence.
pub struct Judged {
    /// Every unmet condition, once.
    pub unmet: Vec<Requirement>,
    /// Every condition once, met or not.
    pub conditions: Vec<ExaminedCondition>,
    /// Every attempt that was pooled with the named run; `None` without one.
    pub attempts: Option<AttemptIds>,
}

pub struct GateInput<'a> {
    pub tenant: &'a TenantId,
    pub agent: &'a AgentId,
    pub version: &'a Version,
    /// The digest of the version's pack; `None` if it is not installed.
    pub pack_integrity: Option<&'a str>,
    /// The run named as evidence.
    pub evidence: Option<&'a RunId>,
}

impl<'a> GateInput<'a> {
    /// The version as evidence names it.
    pub fn candidate(&self, version: &'a str) -> Candidate<'a> {
        Candidate {
            agent_id: self.agent.as_str(),
            version,
            // A pack that is not installed matches no evidence.
            pack_integrity: self.pack_integrity.unwrap_or_default(),
        }
    }
}

/// A policy and the placement it applies to.
#[derive(Clone, Debug)]
pub struct ApplicablePolicy {
    pub placement: Placement,
    pub policy: PromotionPolicy,
}

pub struct Gates {
    store: Arc<Database>,
    clock: Arc<dyn Clock>,
    runs: Arc<Runs>,
    conditions: Vec<Arc<dyn Condition>>,
    roles: Arc<Roles>,
    channels: Arc<[Channel]>,
}

impl Gates {
    /// The use cases over their ports, on a host with these conditions, roles and channels.
    /// Conditions are shown and checked in their order.
    pub fn new(
        store: Arc<Database>,
        clock: Arc<dyn Clock>,
        runs: Arc<Runs>,
        conditions: Vec<Arc<dyn Condition>>,
        roles: Arc<Roles>,
        channels: Arc<[Channel]>,
    ) -> Self {
        Self {
            store,
            clock,
            runs,
            conditions,
            roles,
            channels,
        }
    }

    /// The policies of a tenant.
    ///
    /// # Errors
    /// An internal error.
    pub async fn policies(&self, tenant: &TenantId) -> Result<Vec<ScopedPolicy>, Problem> {
        let policies = store::policies(&self.store, tenant).await;
        let mut policies = policies.map_err(|cause| internal(&cause))?;
        for set in &mut policies {
            // A policy whose conditions this host does not know must not be taken for a laxer one.
            set.policy.conditions = self
                .completed(&set.policy.conditions)
                .map_err(|cause| internal(&cause))?;
        }
        Ok(policies)
    }

    /// A policy from a request, with every member of its conditions.
    ///
    /// # Errors
    /// `validation_error` for conditions that this host does not have, or that do not match the API
    /// description.
    pub fn complete(&self, mut policy: PromotionPolicy) -> Result<PromotionPolicy, Problem> {
        policy.conditions = self
            .completed(&policy.conditions)
            .map_err(|Undescribed(member)| undescribed(&format!("policy.{member}")))?;
        Ok(policy)
    }

    fn completed(&self, given: &Conditions) -> Result<Conditions, Undescribed> {
        let known = |name: &str| self.conditions.iter().any(|it| it.member() == name);
        if let Some(unknown) = given.members().find(|name| !known(name)) {
            return Err(Undescribed(unknown.to_owned()));
        }
        let mut complete = Conditions::default();
        for condition in &self.conditions {
            let member = condition.member();
            let Some(value) = given.get(member).filter(|it| it.get() != "null") else {
                continue;
            };
            let value = condition.complete(value).map_err(|Undescribed(inner)| {
                Undescribed(match inner.as_str() {
                    "" => member.to_owned(),
                    inner => format!("{member}.{inner}"),
                })
            })?;
            complete.push(member.to_owned(), value);
        }
        Ok(complete)
    }

    /// The conditions of a complete policy, in words, each with its kind.
    ///
    /// # Errors
    /// An internal error.
    pub fn explain(&self, policy: &PromotionPolicy) -> Result<Vec<(String, String)>, Problem> {
        let terms = policy.approval.iter();
        let mut all: Vec<(String, String)> = terms
            .map(|terms| (APPROVAL.to_owned(), requirement(terms)))
            .collect();
        let eval = policy.described(false).into_iter();
        all.extend(eval.map(|it| (EVAL.to_owned(), it.requirement)));
        for condition in &self.conditions {
            if let Some(value) = policy.conditions.get(condition.member()) {
                let own = condition.describe(value)?.into_iter();
                all.extend(own.map(|it| (condition.kind().to_owned(), it.requirement)));
            }
        }
        Ok(all)
    }

    /// The channels of this host.
    pub fn channels(&self) -> &[Channel] {
        &self.channels
    }

    /// The roles of this host.
    pub fn roles(&self) -> impl Iterator<Item = &str> {
        self.roles.iter().map(|(name, _)| name)
    }

    /// Sets a [complete](Self::complete) policy.
    ///
    /// # Errors
    /// `validation_error` for an inconsistent policy, or a role or channel this host does not have.
    pub async fn set(&self, caller: &Caller, policy: &ScopedPolicy) -> Result<(), Problem> {
        policy
            .policy
            .check()
            .map_err(|fault| Problem::validation("policy", fault.to_string()))?;
        for condition in &self.conditions {
            if let Some(value) = policy.policy.conditions.get(condition.member()) {
                condition.check(value)?;
            }
        }
        self.check_roles(policy.policy.approval.as_ref())?;
        self.check_scope(&policy.scope)?;
        let decision = self.decision(caller, "gates:set", &policy.scope);
        store::set_policy(&self.store, &caller.tenant, policy, &decision)
            .await
            .map_err(|cause| internal(&cause))
    }

    /// Removes a policy: the more general policy applies again.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn remove(&self, caller: &Caller, scope: &PolicyScope) -> Result<(), Problem> {
        let decision = self.decision(caller, "gates:remove", scope);
        let removed = store::remove_policy(&self.store, &caller.tenant, scope, &decision)
            .await
            .map_err(|cause| internal(&cause))?;
        if removed {
            Ok(())
        } else {
            Err(Problem::new(
                ErrorCode::NotFound,
                "there is no policy for this combination of agent and channel",
            ))
        }
    }

    /// Evaluates the gate as a promotion into service would, and changes nothing. Without a named
    /// run, the newest finished eval run of the version is the evidence; without a share, the
    /// version gets all of the traffic.
    ///
    /// # Errors
    /// `not_found` for an agent or version that is not installed; `validation_error` for a channel
    /// this host does not have.
    pub async fn check(
        &self,
        caller: &Caller,
        agent: &AgentId,
        version: &Version,
        to: (Option<&str>, Option<u8>),
        evidence: Option<RunId>,
    ) -> Result<Check, Problem> {
        let (tenant, (channel, share)) = (&caller.tenant, to);
        let installed = installed(self.store.as_ref(), tenant, agent).await?;
        let pack_integrity = installed.pack_of(version)?;
        let scope = PolicyScope {
            agent_id: None,
            channel: channel.map(str::to_owned),
        };
        self.check_scope(&scope)?;
        let evidence = match evidence {
            Some(named) => Some(named),
            None => {
                let wanted = version.to_string();
                let newest =
                    run_store::runs::newest_eval(&self.store, tenant, agent, &wanted).await;
                newest.map_err(|cause| internal(&cause))?
            }
        };
        let policies = self.policies(tenant).await?;
        let found = in_force(&policies, agent.as_str(), channel);
        let policy = found.map_or_else(PromotionPolicy::default, |found| found.policy.clone());
        let input = GateInput {
            tenant,
            agent,
            version,
            pack_integrity: Some(pack_integrity),
            evidence: evidence.as_ref(),
        };
        let (lifecycle, _) = store::deployments(&self.store, tenant, agent)
            .await
            .map_err(|cause| internal(&cause))?;
        let lifecycle = lifecycle.as_installed(|version| installed.integrity(version));
        let asked = [ApplicablePolicy {
            placement: lifecycle.placement(
                version,
                channel.and_then(|name| name.parse().ok()),
                share,
            ),
            policy,
        }];
        let approvals = self.approvals(&input, &asked, &lifecycle).await?;
        let mut unmet: Vec<Requirement> = approvals.iter().filter_map(Approval::unmet).collect();
        let mut conditions: Vec<_> = approvals.iter().map(Approval::examined).collect();
        let judged = self.unmet(&input, &asked).await?;
        unmet.extend(judged.unmet);
        conditions.extend(judged.conditions);
        let [ApplicablePolicy { policy, .. }] = asked;
        Ok(Check {
            allowed: unmet.is_empty(),
            agent_id: agent.clone(),
            version: version.to_string(),
            channel: channel.map(str::to_owned),
            eval_run_id: evidence,
            attempts: judged.attempts,
            unmet,
            conditions,
            policy,
            set_for: found.map(|found| found.scope.clone()),
        })
    }

    /// The strictest gate that requires a run of this suite: of those in force for the agent, the one
    /// of whose conditions the run leaves most unmet. `None` without such a gate, and for a version
    /// that is not installed.
    ///
    /// # Errors
    /// An internal error.
    pub async fn strictest_of_suite(
        &self,
        caller: &Caller,
        of: Candidate<'_>,
        suite: &str,
        run: &RunId,
    ) -> Result<Option<Check>, Problem> {
        let Ok(version) = Version::parse(of.version) else {
            return Ok(None);
        };
        let policies = self.policies(&caller.tenant).await?;
        let mut strictest: Option<Check> = None;
        for set in naming_suite(&policies, of.agent_id, suite) {
            let to = (set.scope.channel.as_deref(), None);
            let (agent, evidence) = (AgentId::from(of.agent_id), Some(run.clone()));
            let check = match self.check(caller, &agent, &version, to, evidence).await {
                Ok(check) => check,
                // The version or the channel was removed.
                Err(problem) if problem.code.status() < 500 => continue,
                Err(problem) => return Err(problem),
            };
            let most = strictest.as_ref().map_or(0, |it| it.unmet.len());
            if strictest.is_none() || check.unmet.len() > most {
                strictest = Some(check);
            }
        }
        Ok(strictest)
    }

    /// The policies in force for an agent at each of the placements.
    ///
    /// # Errors
    /// An internal error.
    pub async fn in_force(
        &self,
        tenant: &TenantId,
        agent: &AgentId,
        placements: &[Placement],
    ) -> Result<Vec<ApplicablePolicy>, Problem> {
        let set = self.policies(tenant).await?;
        let of = |placement: &Placement| {
            let channel = placement.channel.as_ref().map(Channel::as_str);
            ApplicablePolicy {
                placement: placement.clone(),
                policy: in_force(&set, agent.as_str(), channel)
                    .map_or_else(PromotionPolicy::default, |found| found.policy.clone()),
            }
        };
        Ok(placements.iter().map(of).collect())
    }

    /// Every unmet condition of any of the policies, once.
    ///
    /// # Errors
    /// An internal error. Evidence that is not an eval run, or is another tenant's, is an unmet
    /// condition.
    pub async fn unmet(
        &self,
        input: &GateInput<'_>,
        policies: &[ApplicablePolicy],
    ) -> Result<Judged, Problem> {
        let evidence = match input.evidence {
            Some(run) => self.evidence(input.tenant, run).await?,
            None => None,
        };
        let version = input.version.to_string();
        let candidate = input.candidate(&version);
        let offered = input.evidence.is_some();
        let now = self.clock.now();
        let mut unmet = Vec::new();
        let mut conditions = Vec::new();
        for policy in policies {
            let mut found = policy
                .policy
                .unmet(candidate, offered, evidence.as_ref(), now);
            let mut all = examined(EVAL, &policy.policy.described(offered), &found);
            for condition in &self.conditions {
                if let Some(value) = policy.policy.conditions.get(condition.member()) {
                    let own = condition.unmet(value, input, now).await?;
                    all.extend(examined(
                        condition.kind(),
                        &condition.describe(value)?,
                        &own,
                    ));
                    found.extend(own);
                }
            }
            for condition in all {
                if !conditions.contains(&condition) {
                    conditions.push(condition);
                }
            }
            for requirement in found {
                if !unmet.contains(&requirement) {
                    unmet.push(requirement);
                }
            }
        }
        let attempts = evidence.map(|evidence| AttemptIds::of(&evidence.attempts));
        Ok(Judged {
            unmet,
            conditions,
            attempts,
        })
    }

    /// The policy for steps before production: evidence is optional, but must be valid if named.
    pub fn before_production() -> ApplicablePolicy {
        ApplicablePolicy {
            placement: Placement::new(None, None),
            policy: PromotionPolicy {
                eval: Some(GatePolicy::FLOOR),
                ..PromotionPolicy::default()
            },
        }
    }

    async fn evidence(&self, tenant: &TenantId, run: &RunId) -> Result<Option<Evidence>, Problem> {
        match self.runs.pooled_evidence(tenant, run).await {
            Ok(evidence) => Ok(Some(evidence)),
            Err(problem) if problem.code == ErrorCode::NotFound => Ok(None),
            Err(problem) => Err(problem),
        }
    }

    /// A role that no principal can hold would close the gate forever.
    fn check_roles(&self, approval: Option<&ApprovalPolicy>) -> Result<(), Problem> {
        let Some(approval) = approval else {
            return Ok(());
        };
        let alone = approval.over.as_ref().map(|over| &over.required_role);
        let mut named = approval.required_role.iter().chain(alone);
        match named.find(|role| !self.roles.knows(role)) {
            None => Ok(()),
            Some(unknown) => {
                let known: Vec<&str> = self.roles.iter().map(|(name, _)| name).collect();
                Err(Problem::validation(
                    "policy.approval",
                    format!(
                        "`{unknown}` is not a role of this host; its roles: {}",
                        known.join(", ")
                    ),
                ))
            }
        }
    }

    fn check_scope(&self, scope: &PolicyScope) -> Result<(), Problem> {
        if scope.agent_id.as_deref() == Some("") {
            return Err(Problem::validation(
                "agentId",
                "`agentId` must not be empty; leave it out for any agent",
            ));
        }
        self.check_channel(scope.channel.as_deref())
    }

    /// Refuses a channel this host does not have.
    ///
    /// # Errors
    /// `validation_error`.
    pub fn check_channel(&self, channel: Option<&str>) -> Result<(), Problem> {
        match channel {
            Some(name) if !self.channels.iter().any(|known| known.as_str() == name) => {
                let known: Vec<&str> = self.channels.iter().map(Channel::as_str).collect();
                Err(Problem::validation(
                    "channel",
                    format!("`channel` must be one of {}", known.join(", ")),
                ))
            }
            _ => Ok(()),
        }
    }

    fn decision(&self, caller: &Caller, action: &str, scope: &PolicyScope) -> Decision {
        let named = |name: &Option<String>| name.as_deref().unwrap_or("*").to_owned();
        Decision {
            at: self.clock.now(),
            principal: caller.principal.clone(),
            action: action.to_owned(),
            resource: format!("{}#{}", named(&scope.agent_id), named(&scope.channel)),
            outcome: Outcome::Done,
            reasons: Vec::new(),
            decided_on: None,
            run_id: None,
        }
    }
}

//! Prompts and providers of a configuration that `--cases` names, as those of promptfoo have them.

use std::path::Path;

use crate::cli::eval::Arguments;
use crate::cli::eval::case_options::CaseOptions;
use crate::cli::eval::described::imported;
use crate::rules::eval::import::pack::AgentDraft;
use crate::rules::eval::import::{Imported, ProviderDraft, ProviderEndpoint};
use touchstone_agents::cli::{EndpointKey, JudgeEndpoint, ModelEndpoint};
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::Failure;
use touchstone_host::cli::shell::quoted;

/// A remedy that works for every provider.
const CHOOSE_A_MODEL: &str =
    "choose a model with --model-url URL --model NAME, or run a program with --agent-command";

/// The prompts and providers of a file of cases; empty for files that cannot have them.
#[derive(Debug, Default)]
pub(super) struct Configuration {
    pub prompts: Vec<AgentDraft>,
    pub providers: Vec<ProviderDraft>,
}

impl Configuration {
    /// Reads the file. Content that cannot be imported is not reported here.
    ///
    /// # Errors
    /// The file cannot be read or converted.
    pub(super) fn read(
        context: &Context<'_>,
        file: &Path,
        options: &CaseOptions,
    ) -> Result<Self, Failure> {
        let Imported {
            agents, providers, ..
        } = imported(context, file, options, false)?;
        Ok(Self {
            prompts: agents,
            providers,
        })
    }

    /// The providers that can be called, each with its name. The others are reported.
    ///
    /// # Errors
    /// The configuration has providers, and none can be called; or an API key is missing.
    pub(super) fn callable(
        &self,
        context: &Context<'_>,
        file: &Path,
    ) -> Result<Vec<(&str, &ProviderEndpoint)>, Failure> {
        let mut callable = Vec::new();
        for provider in &self.providers {
            match &provider.endpoint {
                Ok(endpoint) => callable.push((provider.name.as_str(), endpoint)),
                Err(reason) => context
                    .terminal()
                    .note(&format!("left out: provider {} {reason}", provider.name)),
            }
            if provider.endpoint.is_ok() && !provider.unused.is_empty() {
                context.terminal().note(&format!(
                    "not used: settings of provider {}: {}",
                    provider.name,
                    provider.unused.join(", ")
                ));
            }
        }
        if callable.is_empty() && !self.providers.is_empty() {
            let file = file.display();
            return Err(Failure::bad_input(
                "no_provider",
                format!("none of the providers in {file} can be called"),
            )
            .or_try(CHOOSE_A_MODEL));
        }
        let is_missing =
            |variable: &&str| std::env::var_os(variable).is_none_or(|key| key.is_empty());
        let missing = callable.iter().find_map(|(name, endpoint)| {
            let variable = endpoint.key_variable.filter(is_missing)?;
            Some((name, variable))
        });
        match missing {
            Some((name, variable)) => Err(Failure::bad_input(
                "no_api_key",
                format!("provider {name} needs an API key in {variable}, which is not set"),
            )
            .or_try(format!("set {variable}, or {CHOOSE_A_MODEL}"))),
            None => Ok(callable),
        }
    }
}

/// The options that select the provider's endpoint.
pub(super) fn model_endpoint(endpoint: &ProviderEndpoint, judge: JudgeEndpoint) -> ModelEndpoint {
    ModelEndpoint {
        model_url: Some(endpoint.url.clone()),
        model: Some(endpoint.model.clone()),
        model_provider: Some(endpoint.protocol),
        key: match endpoint.key_variable {
            Some(variable) => EndpointKey::Variable(variable.to_owned()),
            None => EndpointKey::None,
        },
        judge,
        ..ModelEndpoint::default()
    }
}

impl Arguments {
    /// Takes prompt and provider from the configuration that `--cases` names, unless flags choose
    /// them.
    ///
    /// # Errors
    /// The file cannot be read, or has several prompts or providers.
    pub(super) fn configured(&mut self, context: &Context<'_>) -> Result<(), Failure> {
        if self.agent_command.is_some() {
            return Ok(());
        }
        let Some((file, options)) = self.described.cases_alone() else {
            return Ok(());
        };
        let file = file.to_owned();
        let configuration = Configuration::read(context, &file, options)?;
        if configuration.prompts.is_empty() {
            return Ok(());
        }
        let by_flag = self.model.model_url.is_some();
        let providers = match by_flag {
            true => Vec::new(),
            false => configuration.callable(context, &file)?,
        };
        let prompts = configuration.prompts.len();
        if prompts * providers.len().max(1) > 1 {
            let shown = file.display();
            let choices = match (prompts, providers.len()) {
                (prompts, 0 | 1) => format!("{prompts} prompts"),
                (1, providers) => format!("{providers} providers"),
                (prompts, providers) => format!("{prompts} prompts and {providers} providers"),
            };
            return Err(Failure::usage(format!(
                "{shown} has {choices}, and eval evaluates one agent"
            ))
            .or_try(format!(
                "compare all of them with {} matrix --cases {}",
                context.program(),
                quoted(&shown.to_string())
            )));
        }
        if let Some((_, endpoint)) = providers.first() {
            let given = std::mem::take(&mut self.model);
            self.model = ModelEndpoint {
                model_price: given.model_price,
                embeddings: given.embeddings,
                user: given.user,
                ..model_endpoint(endpoint, given.judge)
            };
        }
        self.described = std::mem::take(&mut self.described).with_own_prompt(Some(0));
        Ok(())
    }
}

//! All metrics: name, kind, unit and help. The names are a contract: dashboards and alerts depend
//! on them, and `docs/operations.md` lists them.

macro_rules! metrics {
    ($($describe:ident $constant:ident($unit:ident) = $name:literal, $help:literal;)*) => {
        $(#[doc = $help] pub const $constant: &str = $name;)*

        pub(super) fn describe() {
            $(metrics::$describe!($constant, metrics::Unit::$unit, $help);)*
        }
    };
}

/// The start of the names that only OTLP exports.
pub(super) const GEN_AI: &str = "gen_ai_";

metrics! {
    describe_gauge BUILD_INFO(Count) = "touchstone_build_info",
        "The running version, as a label; the value is always 1";

    describe_counter HTTP_REQUESTS(Count) = "touchstone_http_requests_total",
        "Requests answered";
    describe_histogram HTTP_SECONDS(Seconds) = "touchstone_http_request_duration_seconds",
        "Time until the response headers were ready";
    describe_gauge HTTP_CONNECTIONS(Count) = "touchstone_http_connections",
        "Open connections";
    describe_gauge SUBSCRIBERS(Count) = "touchstone_event_subscribers",
        "Open event streams and long polls";
    describe_counter IDEMPOTENT_REPLAYS(Count) = "touchstone_idempotent_replays_total",
        "Requests answered from an idempotency record";
    describe_counter RATE_LIMITED(Count) = "touchstone_rate_limited_total",
        "Requests refused by a rate limit";
    describe_counter SHED(Count) = "touchstone_shed_requests_total",
        "Requests refused because too many were in flight";
    describe_counter AUTH_REFUSALS(Count) = "touchstone_auth_refusals_total",
        "Credentials refused";

    describe_gauge RUNS(Count) = "touchstone_runs",
        "Unfinished runs in the database, by status";
    describe_gauge QUEUE_AGE(Seconds) = "touchstone_run_queue_age_seconds",
        "Age of the oldest run that waits for a worker; 0 if none waits";
    describe_histogram QUEUE_WAIT(Seconds) = "touchstone_run_queue_wait_seconds",
        "Time from the creation of a run until a worker first claimed it";
    describe_gauge WORKER_RUNS(Count) = "touchstone_worker_runs",
        "Runs that this process executes";
    describe_gauge WORKER_RUNS_LIMIT(Count) = "touchstone_worker_runs_limit",
        "Maximum number of runs that this process executes at the same time";
    describe_counter RUNS_ENDED(Count) = "touchstone_runs_ended_total",
        "Runs that ended in this process, by kind and final status";
    describe_counter LEASES_LOST(Count) = "touchstone_run_leases_lost_total",
        "Runs that this process stopped executing because it lost their lease";

    describe_counter RUNS_ARCHIVED(Count) = "touchstone_runs_archived_total",
        "Attempts to archive a run, by outcome: written or failed";

    describe_counter TASKS(Count) = "touchstone_tasks_total",
        "Tasks of eval runs that were recorded, by outcome";
    describe_histogram TASK_SECONDS(Seconds) = "touchstone_task_duration_seconds",
        "Latency of the agent in a task: the time since the first call, without waits for permits and budget";
    describe_counter UNJUDGED(Count) = "touchstone_tasks_unjudged_total",
        "Tasks that infrastructure errors left unjudged, by cause";

    describe_counter MODEL_CALLS(Count) = "touchstone_model_calls_total",
        "Attempts to call models and remote agents, by outcome";
    describe_histogram MODEL_SECONDS(Seconds) = "touchstone_model_call_duration_seconds",
        "Time of one attempt to call a model or a remote agent";
    describe_counter MODEL_TOKENS(Count) = "touchstone_model_tokens_total",
        "Tokens of answered model calls, reported or estimated";
    describe_histogram MODEL_COST(Count) = "touchstone_model_call_cost_usd",
        "Cost of answered model calls whose price is known, in US dollars";

    describe_histogram GEN_AI_TOKENS(Count) = "gen_ai_client_token_usage",
        "Tokens of a call to a model or an agent, if the endpoint reports them";
    describe_histogram GEN_AI_SECONDS(Seconds) = "gen_ai_client_operation_duration_seconds",
        "Time of one attempt to call a model or an agent";

    describe_counter EVENTS(Count) = "touchstone_events_appended_total",
        "Events written to the logs of runs";
    describe_histogram APPEND_SECONDS(Seconds) = "touchstone_event_append_duration_seconds",
        "Time to write one batch of events durably, retries included";
    describe_counter APPEND_ERRORS(Count) = "touchstone_event_append_errors_total",
        "Attempts to write a batch of events that failed";
    describe_counter PROJECTIONS(Count) = "touchstone_run_projections_total",
        "Stored states of runs, by outcome: read, stored, other_format, damaged or failed";

    describe_counter WEBHOOK_DELIVERIES(Count) = "touchstone_webhook_deliveries_total",
        "Webhook deliveries attempted";
    describe_gauge WEBHOOK_LAG(Seconds) = "touchstone_webhook_lag_seconds",
        "Age of the oldest event that is not delivered to a webhook yet; 0 if none";

    describe_gauge CLUSTER_CONNECTED(Count) = "touchstone_cluster_connected",
        "Whether this process is connected to NATS: 1 or 0";
    describe_gauge CLUSTER_REPLICAS(Count) = "touchstone_cluster_replicas",
        "Replicas that announced themselves in the last 10 seconds";
    describe_gauge CLUSTER_WORKERS(Count) = "touchstone_cluster_workers",
        "Workers that announced themselves in the last 10 seconds and take tasks";
    describe_gauge CLUSTER_PLACES(Count) = "touchstone_cluster_places",
        "Maximum number of tasks that these workers execute at the same time";
    describe_gauge CLUSTER_FREE_PLACES(Count) = "touchstone_cluster_free_places",
        "Tasks that these workers take in addition now";
    describe_gauge CLUSTER_TASKS(Count) = "touchstone_cluster_tasks",
        "Tasks that this process has given to workers, by state: waiting or held";
    describe_gauge CLUSTER_UNSERVED_RUNS(Count) = "touchstone_cluster_unserved_runs",
        "Runs of this process with waiting tasks for which no worker has the model and the labels";
    describe_histogram CLUSTER_TASK_WAIT(Seconds) = "touchstone_cluster_task_wait_seconds",
        "Time that a task waited until a worker took it";
    describe_counter CLUSTER_CLAIMS(Count) = "touchstone_cluster_claims_total",
        "Claims of workers to tasks of this process, by answer: granted, gone or none";
    describe_counter CLUSTER_ATTEMPTS(Count) = "touchstone_cluster_attempts_total",
        "Attempts of workers at tasks of this process, by outcome: ended, lost or withdrawn";
    describe_counter CLUSTER_FACTS_IGNORED(Count) = "touchstone_cluster_facts_ignored_total",
        "Reports of workers that were not recorded, by reason: superseded, missing or refused";
    describe_counter CLUSTER_BUS_FAULTS(Count) = "touchstone_cluster_bus_faults_total",
        "Faults of the connection to NATS and of its queues";
    describe_counter CLUSTER_WORKER_ATTEMPTS(Count) = "touchstone_cluster_worker_attempts_total",
        "Attempts at tasks that this worker has finished, by outcome: ended or lost";
    describe_gauge CLUSTER_WORKER_TASKS(Count) = "touchstone_cluster_worker_tasks",
        "Tasks that this worker executes";
    describe_gauge CLUSTER_WORKER_PLACES(Count) = "touchstone_cluster_worker_places",
        "Maximum number of tasks that this worker executes at the same time";

    describe_counter TELEMETRY_DROPPED(Count) = "touchstone_telemetry_dropped_total",
        "Spans, metrics and log records that were not exported by OTLP, by signal and reason";
    describe_counter TELEMETRY_FAILURES(Count) = "touchstone_telemetry_export_failures_total",
        "Exports by OTLP that failed, by signal";

    describe_gauge DATABASE_WRITABLE(Count) = "touchstone_database_writable",
        "Whether the database accepts writes: 1 or 0";
    describe_gauge DATABASE_BYTES(Bytes) = "touchstone_database_size_bytes",
        "Size of the database";
    describe_gauge DISK_FREE_BYTES(Bytes) = "touchstone_disk_free_bytes",
        "Free space on the disk of the SQLite database";
    describe_gauge DISK_BYTES(Bytes) = "touchstone_disk_size_bytes",
        "Size of the disk of the SQLite database";
    describe_counter BACKGROUND_FAILURES(Count) = "touchstone_background_failures_total",
        "Background work that failed or panicked";

    // The names by which Prometheus' client libraries export them.
    describe_counter PROCESS_CPU(Seconds) = "process_cpu_seconds_total",
        "Processor time of this process, in whole seconds";
    describe_gauge PROCESS_RESIDENT_BYTES(Bytes) = "process_resident_memory_bytes",
        "Memory of this process that is in RAM";
    describe_gauge PROCESS_VIRTUAL_BYTES(Bytes) = "process_virtual_memory_bytes",
        "Address space of this process";
    describe_gauge PROCESS_OPEN_FILES(Count) = "process_open_fds",
        "Open file descriptors of this process";
    describe_gauge PROCESS_MAX_FILES(Count) = "process_max_fds",
        "Maximum number of open file descriptors of this process";
    describe_gauge PROCESS_START(Seconds) = "process_start_time_seconds",
        "Start of this process in seconds since 1970";
}

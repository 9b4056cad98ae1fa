import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpHandler;
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.net.URLDecoder;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.Executors;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.SupportsNamespaces;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.rest.CatalogHandlers;
import org.apache.iceberg.rest.RESTCatalogProperties;
import org.apache.iceberg.rest.RESTSerializers;
import org.apache.iceberg.rest.requests.CreateNamespaceRequest;
import org.apache.iceberg.rest.requests.CreateTableRequest;
import org.apache.iceberg.rest.requests.UpdateTableRequest;
import org.apache.iceberg.rest.responses.ConfigResponse;
import org.apache.iceberg.rest.responses.ErrorResponse;
import org.apache.iceberg.rest.responses.ErrorResponseParser;
import org.apache.iceberg.shaded.com.fasterxml.jackson.annotation.JsonAutoDetect;
import org.apache.iceberg.shaded.com.fasterxml.jackson.annotation.PropertyAccessor;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.DeserializationFeature;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.PropertyNamingStrategies;

/**
 * A REST catalog for this machine: Iceberg's own handlers of requests, behind the HTTP server of Java. The arguments are
 * a port, a file for the names of the tables, and a folder for the tables. Janino compiles it, which knows no generics.
 */
public class RestCatalog implements HttpHandler {
  private static final int THREADS = 8;

  private final ObjectMapper mapper = new ObjectMapper();
  private final Map statuses = new HashMap();
  private final Catalog catalog;

  RestCatalog(Catalog catalog) {
    this.catalog = catalog;
    mapper.setVisibility(PropertyAccessor.FIELD, JsonAutoDetect.Visibility.ANY);
    mapper.configure(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES, false);
    mapper.setPropertyNamingStrategy(PropertyNamingStrategies.KEBAB_CASE);
    RESTSerializers.registerAll(mapper);
    statuses.put("IllegalArgumentException", Integer.valueOf(400));
    statuses.put("ValidationException", Integer.valueOf(400));
    statuses.put("NoSuchNamespaceException", Integer.valueOf(404));
    statuses.put("NoSuchTableException", Integer.valueOf(404));
    statuses.put("UnsupportedOperationException", Integer.valueOf(406));
    statuses.put("NamespaceNotEmptyException", Integer.valueOf(409));
    statuses.put("AlreadyExistsException", Integer.valueOf(409));
    statuses.put("CommitFailedException", Integer.valueOf(409));
  }

  public static void main(String[] args) throws Exception {
    Map settings = new HashMap();
    settings.put("catalog-impl", "org.apache.iceberg.jdbc.JdbcCatalog");
    settings.put("uri", "jdbc:sqlite:" + args[1]);
    settings.put("jdbc.schema-version", "V1");
    // SQLite refuses a second connection that writes
    settings.put("clients", "1");
    settings.put("warehouse", args[2]);
    Catalog catalog = CatalogUtil.buildIcebergCatalog("rest", settings, new Configuration());
    HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(args[0])), 0);
    server.setExecutor(Executors.newFixedThreadPool(THREADS));
    server.createContext("/", new RestCatalog(catalog));
    server.start();
  }

  public void handle(HttpExchange exchange) {
    try {
      int status = 200;
      String text;
      try {
        Object answer = answer(exchange);
        text = answer == null ? null : mapper.writeValueAsString(answer);
        status = answer == null ? 204 : 200;
      } catch (Exception error) {
        String kind = error.getClass().getSimpleName();
        Integer known = (Integer) statuses.get(kind);
        status = known == null ? 500 : known.intValue();
        ErrorResponse.Builder response = ErrorResponse.builder();
        response.responseCode(Integer.valueOf(status)).withType(kind).withMessage(error.getMessage());
        text = ErrorResponseParser.toJson(response.build());
      }
      if (text == null || exchange.getRequestMethod().equals("HEAD")) {
        exchange.sendResponseHeaders(status, -1L);
      } else {
        byte[] content = text.getBytes("UTF-8");
        exchange.getResponseHeaders().set("Content-Type", "application/json");
        exchange.sendResponseHeaders(status, (long) content.length);
        exchange.getResponseBody().write(content);
      }
    } catch (Exception error) {
      error.printStackTrace();
    } finally {
      exchange.close();
    }
  }

  /** The response to a request; null: an empty one. The path is v1/namespaces/NAMESPACE/tables/TABLE, or begins so. */
  private Object answer(HttpExchange exchange) throws Exception {
    String[] path = exchange.getRequestURI().getRawPath().substring(1).split("/");
    String method = exchange.getRequestMethod();
    byte[] body = exchange.getRequestBody().readAllBytes();
    SupportsNamespaces spaces = (SupportsNamespaces) catalog;
    if (path.length == 2 && path[1].equals("config")) {
      return ConfigResponse.builder().build();
    } else if (path.length < 2 || !path[1].equals("namespaces")) {
      throw new UnsupportedOperationException(method + " " + exchange.getRequestURI());
    } else if (path.length == 2) {
      return method.equals("GET")
          ? (Object) CatalogHandlers.listNamespaces(spaces, Namespace.empty())
          : (Object) CatalogHandlers.createNamespace(
              spaces, (CreateNamespaceRequest) mapper.readValue(body, CreateNamespaceRequest.class));
    }
    Namespace space = Namespace.of(new String[] {URLDecoder.decode(path[2], "UTF-8")});
    if (path.length == 3) {
      return CatalogHandlers.loadNamespace(spaces, space);
    } else if (path.length == 4) {
      return method.equals("GET")
          ? (Object) CatalogHandlers.listTables(catalog, space)
          : created(space, (CreateTableRequest) mapper.readValue(body, CreateTableRequest.class));
    } else if (path.length > 5) {
      return null; // metrics of clients
    }
    TableIdentifier table = TableIdentifier.of(space, URLDecoder.decode(path[4], "UTF-8"));
    if (method.equals("POST")) {
      return CatalogHandlers.updateTable(
          catalog, table, (UpdateTableRequest) mapper.readValue(body, UpdateTableRequest.class));
    } else if (method.equals("DELETE")) {
      CatalogHandlers.purgeTable(catalog, table);
      return null;
    }
    return CatalogHandlers.loadTable(catalog, table, RESTCatalogProperties.SnapshotMode.ALL);
  }

  private Object created(Namespace space, CreateTableRequest request) {
    return request.stageCreate()
        ? CatalogHandlers.stageTableCreate(catalog, space, request)
        : CatalogHandlers.createTable(catalog, space, request);
  }
}
